package router

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// lease is what was published about a store partition.
type lease struct {
	state  query.Lease
	thread string
	// epoch counts the leases of this gate; it is what a View is bound to.
	epoch    uint64
	target   *actor.PID
	progress *lifecycle.Progress
	err      error
}

// gate is the process at a store partition's address.
//
// The mutex protects the lease and the outstanding questions together: a question is either forwarded and outstanding
// before a lease ends, and then failed with it, or it comes after and is answered by the new state. A mailbox would let
// questions that wait in it outlive the lease.
type gate struct {
	router      *Router
	at          address
	pid         *actor.PID
	mu          sync.Mutex
	lease       lease
	outstanding map[*pending]struct{}
}

var _ actor.Process = (*gate)(nil)

// SendSystemMessage implements actor.Process. A watcher is told nothing: a gate does not end.
func (g *gate) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process. A gate does not end.
func (g *gate) Stop(*actor.PID) {}

// SendUserMessage implements actor.Process: it answers or forwards, on the sender's goroutine.
func (g *gate) SendUserMessage(_ *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if sender == nil {
		return // nobody waits for an answer
	}
	q, ok := m.(query.Question)
	if !ok {
		g.reply(sender, query.ToReply(query.Invalid(g.at.store, g.at.partition, "the message is not a question of querypb")))
		return
	}
	situation := g.situation(q.GetAbout())
	g.mu.Lock()
	g.complete(&situation)
	kind, serve := query.Decide(situation)
	if !serve {
		f := g.failure(kind, &situation)
		g.mu.Unlock()
		g.reply(sender, query.ToReply(f))
		return
	}
	p := &pending{gate: g, sender: sender, epoch: g.lease.epoch}
	g.outstanding[p] = struct{}{}
	target := g.lease.target
	p.pid, _ = g.router.system.ProcessRegistry.Add(p, "answer-"+g.router.system.ProcessRegistry.NextId())
	g.mu.Unlock()
	g.router.system.Root.RequestWithCustomSender(target, m, p.pid)
}

func (g *gate) reply(to *actor.PID, r *querypb.Reply) {
	r.Store, r.Partition = g.at.store, g.at.partition
	g.router.system.Root.Send(to, r)
}

// situation is what the router knows; complete adds what the gate knows. The router's lock is never taken inside the gate's.
func (g *gate) situation(about *querypb.About) query.Situation {
	r := g.router
	r.mu.RLock()
	defer r.mu.RUnlock()
	info, declared := r.stores[g.at.store]
	s := query.Situation{
		Node: r.node, Declared: declared, Partitions: r.partitions[g.at.store], Partition: g.at.partition,
		Epoch: about.GetEpoch(), Held: about.GetHeld() || about.GetEpoch() != 0, RequireRunning: about.GetRequireRunning(),
	}
	if mismatch(about.GetKind(), info.Kind) || mismatch(about.GetKeyCodec(), info.KeyCodec) || mismatch(about.GetValueCodec(), info.ValueCodec) {
		s.Mistake = query.StateStoreTypeMismatch
	}
	owner := r.owners[g.at.store][g.at.partition]
	s.OwnerElsewhere = owner != "" && owner != r.opts.Endpoint
	if ms := about.GetDeadlineMs(); ms > 0 {
		s.Late = time.Now().UnixMilli() > ms
	}
	return s
}

func mismatch(asked, has string) bool { return asked != "" && asked != has }

func (g *gate) complete(s *query.Situation) {
	s.Lease, s.LeaseEpoch = g.lease.state, g.lease.epoch
	s.Full = len(g.outstanding) >= g.router.opts.Outstanding
	if g.lease.thread != "" {
		t, ok := g.router.thread(g.lease.thread)
		s.Thread, s.HasThread = t.State, ok
	}
}

// thread reads without the router's lock order in mind: threads are published under a lock of their own.
func (r *Router) thread(name string) (lifecycle.ThreadStatus, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.threads[name]
	return t, ok
}

// failure fills in what was published.
func (g *gate) failure(kind query.Kind, s *query.Situation) *query.Failure {
	f := query.New(kind, g.at.store, g.at.partition)
	f.NodeState, f.Epoch, f.Progress, f.Cause = s.Node.String(), g.lease.epoch, g.lease.progress, s.Wraps(kind)
	if s.HasThread {
		f.ThreadState = s.Thread.String()
	}
	if g.lease.err != nil && kind == query.StoreFailure {
		f.Cause = g.lease.err
	}
	g.router.mu.RLock()
	if s.OwnerElsewhere {
		f.Owner = g.router.owners[g.at.store][g.at.partition]
	}
	g.router.mu.RUnlock()
	return f
}

// publish changes the lease and fails what was outstanding under the one before, if that has ended.
func (g *gate) publish(change func(*lease)) {
	g.mu.Lock()
	before := g.lease
	change(&g.lease)
	ended := before.state == query.LeaseServing && (g.lease.state != query.LeaseServing || g.lease.epoch != before.epoch)
	g.mu.Unlock()
	if ended {
		g.failOutstanding()
	}
}

// failOutstanding answers every question that was forwarded and not answered, by the state of now.
func (g *gate) failOutstanding() {
	situation := g.situation(nil)
	situation.Held = true
	g.mu.Lock()
	g.complete(&situation)
	situation.Full = false
	waiting := g.outstanding
	g.outstanding = map[*pending]struct{}{}
	kind, serve := query.Decide(situation)
	if serve || kind == 0 {
		kind = query.StateStoreMigrated // served again already, under another lease
	}
	f := g.failure(kind, &situation)
	g.mu.Unlock()
	for p := range waiting {
		g.router.system.ProcessRegistry.Remove(p.pid)
		g.reply(p.sender, query.ToReply(f))
	}
}

// pending is one forwarded question: the process that takes the store actor's answer and passes it on.
type pending struct {
	gate   *gate
	pid    *actor.PID
	sender *actor.PID
	epoch  uint64
}

// SendUserMessage implements actor.Process. Only the first of answer and end of lease counts.
func (p *pending) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	g := p.gate
	g.mu.Lock()
	_, waiting := g.outstanding[p]
	delete(g.outstanding, p)
	g.mu.Unlock()
	g.router.system.ProcessRegistry.Remove(p.pid)
	if !waiting {
		return
	}
	reply, ok := m.(*querypb.Reply)
	if !ok { // a dead letter: the store actor has stopped and its lease was not ended yet
		f := query.New(query.StreamThreadRebalancing, g.at.store, g.at.partition)
		f.Cause = query.ErrStateStoreClosed
		g.reply(p.sender, query.ToReply(f))
		return
	}
	reply.Epoch = p.epoch
	g.reply(p.sender, reply)
}

// SendSystemMessage implements actor.Process.
func (p *pending) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (p *pending) Stop(*actor.PID) {}
