package millrace

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// watchThreads looks at every thread's pulse until ctx ends.
func (n *Node) watchThreads(ctx context.Context, t *tree) {
	ticker := time.NewTicker(min(n.opts.patience.Stuck/4+time.Millisecond, time.Second))
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, s := range t.all() {
				t.judge(s, now)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (t *tree) judge(s *slot, now time.Time) {
	busy := s.Pulse.Busy(now)
	verdict := t.node.opts.patience.Judge(busy)
	flagged := t.node.status.isStuck(s.Name)
	switch {
	case verdict == thread.Overdue && t.live():
		t.abandon(s, busy)
	case verdict != thread.Steps && !flagged:
		t.node.opts.logger.Warn("a thread's loop does not step; what it has committed stays readable", "thread", s.Name, "for", busy)
		t.node.stuck(s.Name, true)
	case verdict == thread.Steps && flagged:
		t.node.opts.logger.Info("a thread's loop steps again", "thread", s.Name)
		t.node.stuck(s.Name, false)
	}
}

// stuck flags a thread, or takes the flag away.
func (n *Node) stuck(name string, stuck bool) {
	n.router.Stuck(name, stuck)
	n.status.setStuck(name, stuck)
}

// abandon gives up a thread whose loop does not return: nothing can end it from outside. Its stores answer Migrated at
// once, its member leaves the group, so that others take its tasks over without waiting for a time-out, and what it still
// holds here is closed. Then it is a failure like others: the handler is asked, and a replacement takes the slot's name
// after the back-off, with a member and a producer of its own, since the old ones are in the loop's hands. That producer's
// first request fences the old one.
func (t *tree) abandon(s *slot, busy time.Duration) {
	pid, epoch := t.detach(s)
	if pid == nil { // it has ended meanwhile, or waits for its replacement
		return
	}
	n := t.node
	cause := &thread.StuckError{Thread: s.Name, After: busy}
	n.opts.logger.Error("a thread is given up and leaves the group", "thread", s.Name, "cause", cause)
	n.stuck(s.Name, false)
	t.watch.Became(lifecycle.ThreadStatus{Name: s.Name, State: lifecycle.ThreadRebalancing, Epoch: epoch, Cause: cause, Since: time.Now()})
	n.states.abandon(s, epoch)
	n.system.Root.Send(pid, thread.Abandon{})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), n.opts.stopTimeout)
		defer cancel()
		if err := s.close(ctx, true); err != nil {
			n.opts.logger.Warn("what an abandoned thread held was not closed in time", "thread", s.Name, "err", err)
		}
	}()
	t.end(s.Name)
	t.supervisor.HandleFailure(n.system, &replacement{tree: t, slot: s, before: epoch, closed: closed}, t.childOf(s.Name), nil,
		&thread.Failure{Thread: s.Name, Epoch: epoch, Cause: cause}, nil)
}

// childOf is the name under which the supervisor knows a thread.
func (t *tree) childOf(name string) *actor.PID {
	return actor.NewPID(t.pid.Address, t.pid.Id+"/"+name)
}

// detach takes the actor of a slot whose loop is stuck out of the tree.
func (t *tree) detach(s *slot) (pid *actor.PID, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.abandoned {
		return nil, 0
	}
	pid = t.threads[s.Name]
	s.abandoned = pid != nil
	return pid, t.node.status.epochOf(s.Name)
}

// replacement is what the supervisor restarts in the place of a thread that cannot be.
type replacement struct {
	actor.Supervisor
	tree   *tree
	slot   *slot
	before uint64
	closed chan struct{}
}

// StopChildren implements actor.Supervisor: the actor has ended.
func (r *replacement) StopChildren(...*actor.PID) {}

// RestartChildren implements actor.Supervisor: a new slot under the old name.
func (r *replacement) RestartChildren(...*actor.PID) {
	t := r.tree
	t.node.states.wg.Go(func() {
		<-r.closed
		if t.node.ctx.Err() != nil {
			return
		}
		s, err := t.renew(r.slot, r.before)
		if err != nil {
			if t.live() {
				t.fail(err)
			}
			return
		}
		t.node.system.Root.Send(t.pid, spawnThread{s, make(chan struct{})})
		s.group.Start()
	})
}

// renew puts a new slot in the place of one that was abandoned.
func (t *tree) renew(old *slot, before uint64) (*slot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrNotLive
	}
	s, err := t.node.newSlot(old.Name)
	if err != nil {
		return nil, err
	}
	s.before = before
	for i, o := range t.slots {
		if o == old {
			t.keep(old)
			t.slots[i] = s
		}
	}
	return s, nil
}

// abandon closes what a slot's incarnation holds, without its loop, and hears nothing of that incarnation any more.
func (s *states) abandon(slot *slot, epoch uint64) {
	for id := range s.heldBy(slot.Slot) {
		s.node.owned.set(id, false)
		for _, st := range s.node.plan.Load().Stores(id) {
			s.node.router.GivenUp(st.Name, id.Partition)
		}
		slot.states.Close(id, epoch)
	}
	slot.states.dead.Store(true)
}

// heldBy are the tasks whose state a slot's incarnation has open.
func (s *states) heldBy(slot *thread.Slot) map[record.TaskID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[record.TaskID]bool{}
	for id, k := range s.keepers {
		k.mu.Lock()
		if k.held == slot {
			held[id] = true
		}
		k.mu.Unlock()
	}
	return held
}
