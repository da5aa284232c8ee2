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
	// epoch counts the leases of this gate, over all incarnations and nodes; it is what a View is bound to.
	epoch    uint64
	target   *actor.PID
	progress *lifecycle.Progress
	// lag is how many changelog offsets a standby is behind.
	lag int64
	err error
}

// pending is one question that was forwarded. Its sender is nil once it was answered with DeadlineExceeded: the question is
// in the store actor's mailbox all the same, and counts as outstanding until the actor has taken it.
type pending struct {
	sender   *actor.PID
	epoch    uint64
	deadline time.Time
	asked    time.Time
}

// gate is the process at a store partition's address. It lives as long as the actor system: a PID keeps a pointer to the
// process that it has reached once, so a gate that were replaced by another would go on to be asked.
//
// The mutex protects the fields below it: a question is either forwarded and outstanding before a lease ends, and then
// failed with it, or it comes after and is answered by the new state. An actor's mailbox would let questions that wait in
// it outlive the lease. It is always taken after the router's, so that what both say is of one moment, and nothing is
// sent while it is held: a send may run the receiver's code.
type gate struct {
	directory *directory
	at        address
	pid       *actor.PID

	mu          sync.Mutex
	lease       lease
	outstanding map[uint32]pending
	last        uint32
	// alarm goes off at the earliest deadline of what is outstanding; armed is when, zero if it is not set.
	alarm *time.Timer
	armed time.Time
}

var _ actor.Process = (*gate)(nil)

// SendSystemMessage implements actor.Process. The end of the store actor that the gate forwards to ends the lease, if
// nothing else has: whatever was in its mailbox then is lost, and the library does not say so.
func (g *gate) SendSystemMessage(_ *actor.PID, message any) {
	m, ok := message.(*actor.Terminated)
	if !ok {
		return
	}
	g.publish(g.directory.current.Load(), func(l *lease) {
		if (l.state == query.LeaseServing || l.state == query.LeaseStandby) && l.target.Equal(m.Who) {
			l.state, l.err = query.LeaseFailed, query.ErrStateStoreClosed
		}
	})
}

// Stop implements actor.Process. A gate does not end.
func (g *gate) Stop(*actor.PID) {}

// SendUserMessage implements actor.Process: it answers or forwards a question on the asker's goroutine, and passes on an
// answer on the store actor's. A question that is forwarded has the gate as its sender, with a RequestId of its own: so
// an answer needs no process, and one that comes late finds nothing to belong to.
func (g *gate) SendUserMessage(to *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	q, ok := m.(query.Question)
	switch {
	case ok && sender == nil:
		g.directory.dropped.Add(1) // nobody waits for an answer
	case ok && query.OfNode(q):
		g.directory.send(sender, g.directory.current.Load().catalogue(q, &g.at))
	case ok:
		g.ask(q, sender)
	case to.GetRequestId() != 0:
		g.answered(to.GetRequestId(), m)
	case sender != nil:
		g.fail(sender, query.Invalid(g.at.store, g.at.partition, "the message is not a question of querypb"))
	}
}

func (g *gate) ask(q query.Question, sender *actor.PID) {
	r := g.directory.current.Load()
	id, target, f := g.admit(r, q, sender)
	if f != nil {
		g.fail(sender, f)
		return
	}
	// Root.RequestWithCustomSender does this in two pieces of memory.
	m := &struct {
		sender   actor.PID
		envelope actor.MessageEnvelope
	}{}
	m.sender.Address, m.sender.Id, m.sender.RequestId = g.pid.Address, g.pid.Id, id
	m.envelope.Message, m.envelope.Sender = q, &m.sender
	r.system.Root.Send(target, &m.envelope)
}

// admit decides, and makes the question outstanding if the store may answer it.
func (g *gate) admit(r *Router, q query.Question, sender *actor.PID) (id uint32, target *actor.PID, f *query.Failure) {
	now := time.Now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.situation(r)
	detail := g.asked(r, &s, q, now)
	kind, serve := query.Decide(s)
	if !serve {
		f = g.failure(r, kind, &s)
		if s.Mistake == kind {
			f.Detail = detail
		}
		if kind == query.UnknownStateStore {
			f.Detail = r.known()
		}
		return 0, nil, f
	}
	deadline := now.Add(r.opts.Wait)
	if d, ok := query.Deadline(q, now); ok && d.Before(deadline) {
		deadline = d
	}
	for g.last++; g.last == 0 || g.taken(g.last); g.last++ {
	}
	g.outstanding[g.last] = pending{sender, g.lease.epoch, deadline, now}
	g.watchClock(now, deadline)
	return g.last, g.lease.target, nil
}

func (g *gate) taken(id uint32) bool { _, ok := g.outstanding[id]; return ok }

// situation is what is published, as of now, before any question. Both locks are held.
func (g *gate) situation(r *Router) query.Situation {
	info, declared := r.stores[g.at.store]
	owner := r.owners[g.at.store][g.at.partition]
	thread, has := r.threads[g.lease.thread]
	return query.Situation{
		Node: r.node, Declared: declared, Global: info.Global, Partitions: r.partitions[g.at.store], Partition: g.at.partition,
		Thread: thread.State, HasThread: has, Lease: g.lease.state, LeaseEpoch: g.lease.epoch, Lag: g.lease.lag,
		OwnerElsewhere: owner != "" && owner != r.opts.Endpoint,
	}
}

// asked adds what the question says; detail is what is wrong with it.
func (g *gate) asked(r *Router, s *query.Situation, q query.Question, now time.Time) (detail string) {
	about := q.GetAbout()
	s.Epoch, s.Held, s.RequireRunning, s.Derived = about.GetEpoch(), about.GetHeld() || about.GetEpoch() != 0, about.GetRequireRunning(), about.GetDerived()
	s.Full = len(g.outstanding) >= r.opts.Outstanding
	if d, ok := query.Deadline(q, now); ok {
		s.Late = !now.Before(d)
	}
	if about.GetMaxLag() >= 0 && about != nil && about.MaxLag != nil {
		s.Stale, s.MaxLag = true, about.GetMaxLag()
	}
	if (about.GetStore() != "" && about.GetStore() != g.at.store) || (about != nil && about.Partition != nil && *about.Partition != g.at.partition) {
		s.Mistake = query.InvalidQuery
		return "it names another store partition than the one whose address it was sent to"
	}
	return r.mistake(s, g.at.store, q)
}

// failure fills in what was published. Both locks are held.
func (g *gate) failure(r *Router, kind query.Kind, s *query.Situation) *query.Failure {
	f := query.New(kind, g.at.store, g.at.partition)
	f.NodeState, f.Progress, f.Cause = s.Node.String(), g.lease.progress, s.Wraps(kind)
	if g.lease.epoch != g.directory.base {
		f.Epoch = g.lease.epoch
	}
	if s.HasThread {
		f.ThreadState = s.Thread.String()
		if retry := r.threads[g.lease.thread].Retry; kind == query.StreamThreadRebalancing && !retry.IsZero() {
			f.RetryAfter = max(f.RetryAfter, time.Until(retry))
		}
	}
	switch kind {
	case query.StoreFailure:
		f.Cause, f.Retry = g.lease.err, query.Here // the incarnation ends with its engine, and the next one rebuilds the state
	case query.StreamThreadRebalancing:
		f.Cause = g.lease.err
		if p := g.lease.progress; p != nil {
			f.Left = query.Estimate(*p, time.Now())
			f.RetryAfter = max(f.RetryAfter, min(f.Left/4, time.Second))
		}
	}
	if s.OwnerElsewhere {
		f.Owner = r.owners[g.at.store][g.at.partition]
	}
	return f
}

// publish changes the lease, unless r is not the current router any more, and fails what was outstanding under the lease
// before, if that has ended.
func (g *gate) publish(r *Router, change func(*lease)) {
	r.mu.RLock()
	g.mu.Lock()
	var waiting []pending
	var f *query.Failure
	if g.directory.current.Load() == r {
		before := g.lease
		change(&g.lease)
		serving := before.state == query.LeaseServing || before.state == query.LeaseStandby
		if serving && (g.lease.state != before.state || g.lease.epoch != before.epoch) {
			waiting, f = g.end(r)
		}
		if g.lease.state != query.LeaseRestoring {
			g.directory.published.Add(1)
		}
	}
	g.mu.Unlock()
	r.mu.RUnlock()
	g.failAll(waiting, f)
}

// failOutstanding fails every question that was forwarded and not answered, by the state of now.
func (g *gate) failOutstanding(r *Router) {
	r.mu.RLock()
	g.mu.Lock()
	waiting, f := g.end(r)
	g.mu.Unlock()
	r.mu.RUnlock()
	g.failAll(waiting, f)
}

// end takes what is outstanding and says how it fails. Both locks are held.
func (g *gate) end(r *Router) (waiting []pending, f *query.Failure) {
	for _, p := range g.outstanding {
		if p.sender != nil {
			waiting = append(waiting, p)
		}
	}
	clear(g.outstanding)
	s := g.situation(r)
	s.Held = true
	kind, serve := query.Decide(s)
	if serve { // it is served again already, under another lease
		kind = query.StateStoreMigrated
	}
	return waiting, g.failure(r, kind, &s)
}

func (g *gate) failAll(waiting []pending, f *query.Failure) {
	for _, p := range waiting {
		g.fail(p.sender, f)
	}
}

func (g *gate) fail(to *actor.PID, f *query.Failure) { g.reply(to, query.ToReply(f)) }

func (g *gate) reply(to *actor.PID, r *querypb.Reply) {
	r.Store, r.Partition = g.at.store, g.at.partition
	g.directory.current.Load().count(g.at.store, r)
	g.directory.send(to, r)
}

// answered passes an answer of the store actor on. Only the first of answer, end of the lease and deadline counts.
func (g *gate) answered(id uint32, message any) {
	g.mu.Lock()
	p, waiting := g.outstanding[id]
	delete(g.outstanding, id)
	standby, lag, thread := g.lease.state == query.LeaseStandby, g.lease.lag, g.lease.thread
	g.mu.Unlock()
	if !waiting || p.sender == nil {
		return
	}
	reply, ok := message.(*querypb.Reply)
	if !ok { // a dead letter: the store actor has stopped, and the message that says so is on its way
		f := query.New(query.StreamThreadRebalancing, g.at.store, g.at.partition)
		f.Cause = query.ErrStateStoreClosed
		g.fail(p.sender, f)
		return
	}
	r := g.directory.current.Load()
	if f := reply.GetFailure(); f != nil {
		f.Epoch = p.epoch
	} else {
		r.answered(g.at.store, p.asked)
	}
	reply.Epoch = p.epoch
	if standby {
		reply.Standby, reply.Lag = true, lag
	}
	reply.Paused, reply.Stuck = r.paused.Load(), r.isStuck(thread)
	g.reply(p.sender, reply)
}

// watchClock sets the alarm to the deadline, if it is not set to an earlier one. The mutex is held. One timer for a gate
// is enough, because nearly every question is answered long before it goes off.
func (g *gate) watchClock(now, deadline time.Time) {
	if !g.armed.IsZero() && !deadline.Before(g.armed) {
		return
	}
	g.armed = deadline
	// The millisecond makes the alarm find its question overdue, whatever the two clocks' grain is.
	if wait := deadline.Sub(now) + time.Millisecond; g.alarm == nil {
		g.alarm = time.AfterFunc(wait, g.expire)
	} else {
		g.alarm.Reset(wait)
	}
}

// expire answers the questions whose deadline has passed.
func (g *gate) expire() {
	var late []pending
	g.mu.Lock()
	now, next := time.Now(), time.Time{}
	for id, p := range g.outstanding {
		switch {
		case p.sender == nil:
		case !p.deadline.After(now):
			late = append(late, p)
			g.outstanding[id] = pending{epoch: p.epoch}
		case next.IsZero() || p.deadline.Before(next):
			next = p.deadline
		}
	}
	g.armed = time.Time{}
	if !next.IsZero() {
		g.watchClock(now, next)
	}
	g.mu.Unlock()
	g.failAll(late, query.New(query.DeadlineExceeded, g.at.store, g.at.partition))
}
