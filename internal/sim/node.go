package main

import (
	"fmt"
	"time"
)

// node is a machine of the cluster: its disk outlives the processes that run on it.
type node struct {
	world     *world
	id        int
	name      string
	processID string
	disk      *disk
	proc      *process
	// present says that a process runs; leaving that it was told to stop.
	present, leaving bool
	// asleep is until when the process stands still, and slept what has come for it meanwhile.
	asleep time.Duration
	slept  []func()
	// skew is what the clock is ahead of the world's, wall that of the stores' clock alone.
	skew, wall time.Duration
	// user is what user code does next.
	user *fault
}

func newNode(w *world, id int) *node {
	n := &node{world: w, id: id, name: fmt.Sprintf("n%d", id), processID: fmt.Sprintf("00000000-0000-4000-8000-%012d", id)}
	n.disk = newDisk(n)
	return n
}

// boot starts a process on what the disk holds.
func (n *node) boot() {
	if n.present {
		return
	}
	n.present, n.leaving = true, false
	n.proc = newProcess(n)
	n.proc.start()
}

// crash ends the process here and now. The disk keeps what was synced; with power kept, also what was not.
func (n *node) crash(power bool) {
	if !n.present {
		return
	}
	n.world.say("%s crashes", n.name)
	n.world.tally.Crashes++
	n.present, n.slept, n.asleep, n.user = false, nil, 0, nil
	old := n.proc
	old.dead = true
	n.disk.crash(power)
	n.world.after(0, old.bury)
	n.world.after(n.world.between(50*time.Millisecond, 14*time.Second), n.boot)
}

// stop ends the process as Shutdown does.
func (n *node) stop(again time.Duration) {
	if !n.present || n.leaving {
		return
	}
	n.world.say("%s is told to stop", n.name)
	n.leaving = true
	n.proc.stop()
	n.world.after(again, func() { n.comeBack() })
}

// comeBack starts a node that was stopped, as soon as it has.
func (n *node) comeBack() {
	if n.present && n.leaving {
		n.world.after(time.Second, n.comeBack)
		return
	}
	n.boot()
}

// ended is called when a stopped process is gone.
func (n *node) ended() {
	n.world.say("%s has stopped", n.name)
	old := n.proc
	old.dead = true
	n.present, n.leaving = false, false
	n.world.after(0, old.bury)
}

// sleep stands still for a while: nothing is taken in and nothing goes out, but what is on its way arrives.
func (n *node) sleep(d time.Duration) {
	n.asleep = max(n.asleep, n.world.now+d)
	n.world.after(d, n.maybeWake)
}

func (n *node) maybeWake() {
	if n.world.now >= n.asleep {
		n.awake()
	}
}

func (n *node) awake() {
	n.asleep = 0
	slept := n.slept
	n.slept = nil
	for _, f := range slept {
		n.world.after(n.world.between(0, 500*time.Microsecond), f)
	}
}

// userCode is called by the topology for each record.
func (n *node) userCode() error {
	f := n.user
	if f == nil {
		return nil
	}
	if f.N--; f.N > 0 {
		return nil
	}
	n.user = nil
	n.world.fired(f)
	if f.Kind == kindUserPanic {
		panic(errUser)
	}
	return errUser
}
