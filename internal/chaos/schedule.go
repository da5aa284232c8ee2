package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// kind is what is done to whom.
type kind int

const (
	killNode kind = iota
	stopNode
	restartNode
	killBroker
	restartBroker
	kinds
)

func (k kind) String() string {
	return [...]string{"kill -9 of node", "SIGSTOP of node", "restart of node", "kill -9 of broker", "restart of broker"}[k]
}

// fault is one cycle's fault.
type fault struct {
	kind kind
	// target is the number of the node or broker, 1 and up.
	target int
	// after is how long things are left alone before it.
	after time.Duration
	// down is how long the target is away.
	down time.Duration
	// leave: a node that is restarted leaves the group first.
	leave bool
	// wipe: a killed node loses its state directory too, and so its process id.
	wipe bool
}

// String is what the log says.
func (f fault) String() string {
	text := fmt.Sprintf("%s %d for %s", f.kind, f.target, f.down)
	if f.leave {
		text += ", leaving the group"
	}
	if f.wipe {
		text += ", its state directory lost"
	}
	return text
}

const (
	// members is the number of brokers and the number of nodes.
	members = 3
	// session is the nodes' session time-out, the shortest that brokers accept.
	session = 6 * time.Second
)

// schedule is the faults of a seed. A longer schedule begins with the shorter one of the same seed. Kinds are dealt like
// cards: each five cycles in a row, from the first on, try every kind once.
func schedule(seed uint64, cycles int) []fault {
	random := rand.New(rand.NewPCG(seed, 0x6d696c6c72616365))
	var faults []fault
	for len(faults) < cycles {
		for _, k := range random.Perm(int(kinds)) {
			faults = append(faults, draw(random, kind(k)))
		}
	}
	return faults[:cycles]
}

// draw takes the same numbers from random whatever the kind is.
func draw(random *rand.Rand, k kind) fault {
	f := fault{kind: k, target: 1 + random.IntN(members), after: between(random, 300*time.Millisecond, 3*time.Second)}
	brief, long := between(random, 0, time.Second), between(random, session+time.Second, 2*session)
	quick, leave, wipe := random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(4) == 0
	f.down = long
	// A node that is stopped for less than the session time-out has only been slow.
	if quick && k != stopNode {
		f.down = brief
	}
	f.leave = leave && k == restartNode
	f.wipe = wipe && k == killNode
	return f
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(random.Int64N(int64(high-low)))).Round(time.Millisecond)
}
