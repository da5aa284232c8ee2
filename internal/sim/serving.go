package main

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/thread"
)

// watcher publishes what the loop does to the real router, as a node does.
type watcher process

var _ thread.Watcher = (*watcher)(nil)

// Became implements thread.Watcher.
func (v *watcher) Became(s lifecycle.ThreadStatus) {
	p := (*process)(v)
	p.world.say("%s: %s", p.name, s.State)
	p.world.tally.Transitions++
	p.thread = s
	p.router.Thread(s)
	if n := p.status.State(); n == lifecycle.NodeRebalancing || n == lifecycle.NodeRunning {
		if want := lifecycle.DeriveNode([]lifecycle.Thread{s.State}); want != lifecycle.NodePendingError {
			p.become(want)
		}
	}
}

// Running implements thread.Watcher: what the state says of itself must be so before anybody may ask it.
func (v *watcher) Running(id record.TaskID, at broker.Offsets) {
	p := (*process)(v)
	reached := record.Position{}
	for tp, o := range at {
		reached[tp] = o.At
	}
	p.states.reached(id, reached)
	p.world.truth.restored(p, id, at)
	epoch := p.epoch
	p.world.after(p.world.between(10*time.Microsecond, 2*time.Millisecond), func() {
		p.deliver(func() { p.serve(id, epoch) })
	})
}

// Gone implements thread.Watcher: leases end before anything else happens to the task.
func (v *watcher) Gone(id record.TaskID) {
	p := (*process)(v)
	for _, st := range p.tasks.Stores(id) {
		p.router.Revoked(st.Name, id.Partition, "")
	}
	p.retire(id)
}

// Assignment implements thread.Watcher.
func (v *watcher) Assignment(member string, data []byte) (more bool, live []string) {
	p := (*process)(v)
	owners, err := assign.DecodeOwners(data)
	if err != nil {
		p.world.fail("%s: the assignment cannot be read: %v", p.name, err)
	}
	byStore := map[string]map[int32]string{countsStore: {}}
	for _, o := range owners {
		more = more || o.Intended == member
		if o.Task.SubTopology == countTask {
			byStore[countsStore][o.Task.Partition] = o.Endpoint
		}
	}
	p.router.Owners(byStore)
	others, err := assign.TransactionalIDs(data)
	if err != nil {
		p.world.fail("%s: the assignment cannot be read: %v", p.name, err)
	}
	if p.slot.TransactionalID != "" {
		live = append(live, p.slot.TransactionalID)
	}
	return more, append(live, others...)
}

// serve spawns the real actors of a task's stores and publishes them, if the task is still there.
func (p *process) serve(id record.TaskID, epoch uint64) {
	if p.loop == nil || p.epoch != epoch {
		return
	}
	p.retire(id)
	k := p.states.keepers[id]
	if k == nil || k.state == nil {
		return
	}
	for i, st := range p.tasks.Stores(id) {
		// The last word about the dispatcher is ours: the actor runs on the goroutine of whoever sends to it.
		props := store.NewActorProps(k.state, i).Configure(actor.WithDispatcher(actor.NewSynchronizedDispatcher(100)))
		pid := system.Root.Spawn(props)
		d := &desk{proc: p, actor: pid}
		d.pid, _ = system.ProcessRegistry.Add(d, "desk/"+system.ProcessRegistry.NextId())
		p.serving[id] = append(p.serving[id], d)
		p.router.Serving(st.Name, id.Partition, d.pid, epoch)
	}
	p.put(thread.StoresServing{Task: id, Epoch: epoch})
}

func (p *process) retire(id record.TaskID) {
	for _, d := range p.serving[id] {
		d.closed = true
		system.ProcessRegistry.Remove(d.pid)
		system.Root.Stop(d.actor)
	}
	delete(p.serving, id)
}

// desk is a store actor's mailbox: what is put there is taken up some time later, which the gate must be able to live with.
type desk struct {
	proc   *process
	pid    *actor.PID
	actor  *actor.PID
	closed bool
}

var _ actor.Process = (*desk)(nil)

// SendUserMessage implements actor.Process.
func (d *desk) SendUserMessage(_ *actor.PID, message any) {
	w := d.proc.world
	w.after(w.between(10*time.Microsecond, 3*time.Millisecond), func() {
		d.proc.deliver(func() {
			if d.closed {
				return
			}
			if process, ok := system.ProcessRegistry.Get(d.actor); ok {
				process.SendUserMessage(d.actor, message)
			}
		})
	})
}

// SendSystemMessage implements actor.Process. A desk ends only after its lease was revoked, so nobody needs to be told.
func (d *desk) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (d *desk) Stop(*actor.PID) {}
