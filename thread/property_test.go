package thread_test

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// some gives a node.
func (w *world) some() *node { return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(w.t, "node")] }

func (w *world) somePartition() int32 {
	return rapid.Int32Range(0, partitions-1).Draw(w.t, "partition")
}

// on makes an action of one on a node whose process is there.
func (w *world) on(f func(*node)) func(*rapid.T) {
	return func(*rapid.T) {
		if n := w.some(); !n.down && !(n.stopping && n.loop == nil) {
			f(n)
		}
	}
}

// actions are everything that can happen, the usual more often than the rest.
func (w *world) actions() map[string]func(*rapid.T) {
	turn := w.on(func(n *node) { n.turn() })
	fetch := w.on(func(n *node) { n.fetch(w.somePartition()) })
	work := w.on(func(n *node) { n.work(w.somePartition()) })
	commit := w.on(func(n *node) {
		n.answerCommit()
		n.carryCommit()
	})
	read := w.on(func(n *node) {
		if len(n.reads) > 0 {
			n.answerRead(rapid.IntRange(0, len(n.reads)-1).Draw(w.t, "which"))
		}
	})
	all := map[string]func(*rapid.T){
		"turn": turn, "turn again": turn, "turn once more": turn, "fetch": fetch, "fetch again": fetch, "work": work, "work again": work,
		"read": read, "read again": read, "commit": commit, "commit again": commit,
		"early":    w.on(func(n *node) { n.early() }),
		"flush":    w.on(func(n *node) { n.answerFlush() }),
		"abort":    w.on(func(n *node) { n.answerAbort() }),
		"fence":    w.on(func(n *node) { n.answerFence() }),
		"time out": func(*rapid.T) { w.some().timeOut() },
		"fail":     w.on(func(n *node) { n.failIn = rapid.IntRange(1, 4).Draw(w.t, "records") }),
		"save":     func(*rapid.T) { w.some().disks[w.somePartition()].save() },
		"kill":     func(*rapid.T) { w.some().kill() },
		"revive":   func(*rapid.T) { w.some().revive() },
		"stop":     w.on(func(n *node) { n.stop() }),
		"time": func(*rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(w.t, "ms")) * time.Millisecond)
		},
		"a while": func(*rapid.T) { w.while(w.nodes) },
		"alone":   func(*rapid.T) { w.while([]*node{w.some()}) },
	}
	maps.Copy(all, w.groupActions())
	return all
}

// groupActions are what the coordinator does: step by step, and in one go, so that what the loops have under way meets
// another generation.
func (w *world) groupActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"heartbeat": w.on(func(n *node) { n.heartbeat() }),
		"complete":  func(*rapid.T) { w.complete() },
		"rebalance": w.on(func(n *node) { n.rejoin("asked") }),
		"expire":    func(*rapid.T) { w.expire(w.some()) },
		"regroup":   func(*rapid.T) { w.regroup(nil) },
		"throw out": func(*rapid.T) {
			w.expire(w.some())
			w.regroup(nil)
		},
		"pass over": func(*rapid.T) {
			n := w.some()
			w.expire(n)
			w.regroup(n)
		},
	}
}

// regroup begins the next generation, of which one node does not hear.
func (w *world) regroup(without *node) {
	for _, n := range w.nodes {
		if n != without {
			n.heartbeat()
		}
	}
	w.complete()
}

// while lets nodes work for a moment, so that the failures around it find more than a start. The others stand still.
func (w *world) while(nodes []*node) {
	for range rapid.IntRange(1, 5).Draw(w.t, "rounds") {
		w.now = w.now.Add(30 * time.Millisecond)
		for _, n := range nodes {
			if !n.down && n.loop != nil {
				n.everything()
			}
		}
	}
}

// expire is a session that runs out; the member does not know.
func (w *world) expire(n *node) {
	if n.in {
		w.say("%s: session is over", n.name)
		n.leave()
		w.rebalancing = true
	}
}

func (n *node) stop() {
	if n.loop != nil {
		n.stopping = true
		n.loop.Stop()
	}
}

// TestExactlyOnceWhateverHappens lets the events of a small cluster come in any order, failures included, and holds two
// loops against the truth: at the end each record's effect is there exactly once, in the outputs, in the changelogs and
// in the state on disk; and in between no port hears what it must not.
func TestExactlyOnceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		for range 3 { // Repeat's length is a flag, and its default is short for a life with commits and failures
			t.Repeat(w.actions())
		}
		w.finish()
	})
}

// TestAtLeastOnceWhateverHappens is the same with nothing lost, and doubles allowed.
func TestAtLeastOnceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		for range 3 { // Repeat's length is a flag, and its default is short for a life with commits and failures
			t.Repeat(w.actions())
		}
		w.finish()
	})
}
