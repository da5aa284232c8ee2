package store

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// steady is the dispatcher of one actor: it runs the actor's mailbox on one goroutine, which stays until the actor has
// stopped. The library's own starts a goroutine each time that a message comes to an empty mailbox. Each of them begins with a
// small stack, which a read of the engine makes grow two or three times: measured, that was a third of the time of a get.
//
// Rejected: to run the mailbox on the asker's goroutine, which costs no switch at all. A read that hangs on a stuck disk would
// then hold its asker beyond its deadline.
//
// A run that ends its goroutine (runtime.Goexit) goes on in another one.
type steady struct {
	// ended says that the actor has stopped. It is asked on the goroutine itself, between two runs.
	ended func() bool
	// The mutex protects the fields below it, and makes the check whether there is a goroutine and what is handed to it one
	// step: messages come from any goroutine.
	mu sync.Mutex
	// runs is nil while there is no goroutine. It has room for one run, and a mailbox has no more than one to come.
	runs chan func()
}

var _ actor.Dispatcher = (*steady)(nil)

// Schedule implements actor.Dispatcher. What still comes when the actor has stopped gets a goroutine for itself.
func (d *steady) Schedule(run func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs = make(chan func(), 1)
		go d.work(d.runs)
	}
	d.runs <- run
}

// Throughput implements actor.Dispatcher: how many messages are handled before other goroutines get a turn.
func (d *steady) Throughput() int { return 300 }

// work runs until the actor has ended.
func (d *steady) work(runs chan func()) {
	for !d.leave() {
		run := <-runs
		returned := false
		func() {
			defer func() {
				if !returned { // its goroutine, which is this one, ends
					go d.again(run, runs)
				}
			}()
			run()
			returned = true
		}()
	}
}

// again is work that begins with a run.
func (d *steady) again(run func(), runs chan func()) {
	runs <- run
	d.work(runs)
}

// leave says that the goroutine ends, and makes the next run start another.
func (d *steady) leave() bool {
	if !d.ended() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.runs) > 0 {
		return false
	}
	d.runs = nil
	return true
}
