package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	loseQuorum
	stopInCommit
	kinds
)

// simple is the number of kinds, from the first on, that the first cycles try.
const simple = int(loseQuorum)

func (k kind) String() string {
	return [...]string{"kill -9 of node", "SIGSTOP of node", "restart of node", "kill -9 of broker", "restart of broker",
		"kill -9 of all brokers but", "SIGSTOP, in a commit, of node"}[k]
}

// kindNames are what the -faults flag calls the kinds.
var kindNames = [...]string{"kill-node", "stop-node", "restart-node", "kill-broker", "restart-broker", "lose-quorum", "stop-in-commit"}

// parseKinds reads the names of kinds with commas between them.
func parseKinds(text string) (found []kind, err error) {
	for name := range strings.SplitSeq(text, ",") {
		k := slices.Index(kindNames[:], name)
		if k < 0 {
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(kindNames[:], ", "))
		}
		found = append(found, kind(k))
	}
	return found, nil
}

// fault is one cycle's fault.
type fault struct {
	kind kind
	// target is the number of the node or broker, 1 and up; of the broker that stays, when the quorum is lost.
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
	// transaction is the nodes' transaction time-out: so short that brokers abort transactions while a fault lasts. It is
	// about what a coordinator's fail-over takes.
	transaction = 10 * time.Second
)

// schedule is the faults of a seed, of the kinds in only if there are any. A longer schedule begins with the shorter one of
// the same seed. Kinds are dealt like cards: the first five cycles try every simple kind once, and from the sixth on each
// seven cycles in a row every kind. With only, the cards are those from the first cycle on; one that is named twice is
// there twice.
func schedule(seed uint64, cycles int, only ...kind) []fault {
	random := rand.New(rand.NewPCG(seed, 0x6d696c6c72616365))
	deck := only
	if len(only) == 0 {
		deck = deckOf(simple)
	}
	var faults []fault
	for len(faults) < cycles {
		for _, i := range random.Perm(len(deck)) {
			faults = append(faults, draw(random, deck[i]))
		}
		if len(only) == 0 {
			deck = deckOf(int(kinds))
		}
	}
	return faults[:cycles]
}

// deckOf is the first n kinds.
func deckOf(n int) (deck []kind) {
	for k := range n {
		deck = append(deck, kind(k))
	}
	return deck
}

// draw takes the same numbers from random whatever the kind is.
func draw(random *rand.Rand, k kind) fault {
	f := fault{kind: k, target: 1 + random.IntN(members), after: between(random, 300*time.Millisecond, 3*time.Second)}
	brief, long := between(random, 0, time.Second), between(random, session+time.Second, 2*session)
	quick, leave, wipe := random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(4) == 0
	f.down = long
	// A node that is stopped for less than the session time-out has only been slow.
	if quick && k != stopNode && k != stopInCommit {
		f.down = brief
	}
	// Without its quorum, a cluster answers no commit until the transaction is too old.
	if k == loseQuorum {
		f.down = transaction + long - session
	}
	f.leave = leave && k == restartNode
	f.wipe = wipe && k == killNode
	return f
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(random.Int64N(int64(high-low)))).Round(time.Millisecond)
}
