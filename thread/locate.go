package thread

import (
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// search is how far an entry's search for its start positions has come.
type search uint8

const (
	// held: it begins when the producer's abort is answered and no join is pending; at least once, when no commit is
	// without an answer.
	held search = iota + 1
	// peek: it asks who committed last. Positions may still change then.
	peek
	// fencing: the last committer is dead, and its transaction is ended for it.
	fencing
	// stable: it asks for positions that no open transaction can change.
	stable
	// resetting: nothing was committed, so the reset policy decides.
	resetting
	// found: positions are known, or nothing more is asked for.
	found
)

// locate begins the search for a task's start positions and the opening of its state.
//
// Exactly once, the state must not be opened at the same time: the end of a changelog means something only after no
// transaction can add to it any more, which is when positions are stable. And positions mean something only after this
// member's own producer has ended what it had under way.
func (l *Loop) locate(e *entry) {
	if !l.slot.exactlyOnce() {
		l.cfg.States.Open(e.id, l.cfg.Epoch)
	}
	e.search = held
	l.unhold()
}

// unhold lets held searches go on as soon as they may. While a join is pending the list of live members is not the
// present one, and a fence by it could hit a member that has just come back.
func (l *Loop) unhold() {
	first := peek
	if !l.slot.exactlyOnce() {
		first = stable
	}
	if l.holds() {
		return
	}
	for _, e := range l.everyTask() {
		if e.search == held {
			l.ask(e, first)
		}
	}
}

func (l *Loop) holds() bool {
	if !l.slot.exactlyOnce() {
		return l.slot.committing != 0
	}
	return l.slot.aborting != 0 || l.slot.rejoining || l.slot.retake
}

func (l *Loop) ask(e *entry, s search) {
	e.search, e.token = s, l.slot.nextToken()
	l.slot.Group.CommittedOffsets(e.token, e.tps, s == stable)
}

func (l *Loop) waiting(token uint64) *entry {
	for _, e := range l.tasks {
		if e.token == token {
			return e
		}
	}
	return nil
}

func (l *Loop) onOffsets(o broker.OffsetsFetched) error {
	if r := l.resolving; r != nil && o.Token == r.token {
		return l.resolved(o)
	}
	e := l.waiting(o.Token)
	if e == nil {
		return nil
	}
	if o.Err != nil {
		if o.Err.Class == broker.Migrated || o.Err.Class == broker.Abort {
			return nil // the group says what follows: Lost, or another assignment
		}
		return o.Err
	}
	if e.search == peek {
		e.token = 0
		l.peeks = append(l.peeks, peekAnswer{e, o.Offsets})
		return nil
	}
	e.at = o.Offsets
	if l.slot.exactlyOnce() {
		l.cfg.States.Open(e.id, l.cfg.Epoch)
	}
	var none []record.TopicPartition
	for _, tp := range e.tps {
		if o.Offsets[tp].At == broker.None {
			none = append(none, tp)
		}
	}
	if len(none) == 0 {
		e.token, e.search = 0, found
		return l.startIfReady(e)
	}
	e.search, e.token = resetting, l.slot.nextToken()
	l.cfg.Positions.Resolve(e.token, none)
	return nil
}

// fenceTheDead acts on what peeks have brought, when all that had arrived with them is known: the news of another
// generation may stand right behind the answer.
func (l *Loop) fenceTheDead() {
	for _, p := range l.peeks {
		if l.tasks[p.of.id] == p.of {
			l.peeked(p.of, p.at)
		}
	}
	l.peeks = l.peeks[:0]
}

type peekAnswer struct {
	of *entry
	at broker.Offsets
}

// peeked looks for a last committer that is not in the group any more. Its open transaction would hold up the positions
// and the changelogs until the broker times it out, so it is fenced. A live one is never fenced: it has other tasks, and
// ends its transaction by itself before it gives this task up.
func (l *Loop) peeked(e *entry, at broker.Offsets) {
	e.dead = e.dead[:0]
	for _, o := range at {
		m, _ := task.ParseMetadata(o.Metadata)
		if id := m.TransactionalID; id != "" && !slices.Contains(l.slot.live, id) && !slices.Contains(e.dead, id) {
			e.dead = append(e.dead, id)
		}
	}
	if len(e.dead) == 0 {
		l.ask(e, stable)
		return
	}
	if l.slot.rejoining {
		e.search, e.token = held, 0
		return
	}
	e.search, e.token = fencing, 0
	for _, id := range e.dead {
		l.fence(id)
	}
}

// fence asks for an id to be fenced, unless that is under way already: one dead thread had many tasks.
func (l *Loop) fence(id string) {
	for _, other := range l.fences {
		if other == id {
			return
		}
	}
	token := l.slot.nextToken()
	l.fences[token] = id
	l.cfg.Log.Info("fencing the producer of a member that is gone", "thread", l.slot.Name, "transactionalID", id)
	l.slot.Producer.Fence(token, id)
}

// onFenced goes on with the tasks that waited for it. A fence that failed is no reason to stop: the transaction is over
// when the broker times it out, and stable positions come no earlier.
func (l *Loop) onFenced(f broker.Fenced) error {
	id, ok := l.fences[f.Token]
	if !ok {
		return nil
	}
	delete(l.fences, f.Token)
	if f.Err != nil {
		if f.Err.Class == broker.Fatal {
			return f.Err
		}
		l.cfg.Log.Warn("fencing failed; waiting for the transaction's time-out", "thread", l.slot.Name, "transactionalID", id, "err", f.Err)
	}
	for _, e := range l.everyTask() {
		e.dead = slices.DeleteFunc(e.dead, func(d string) bool { return d == id })
		if e.search == fencing && len(e.dead) == 0 {
			l.ask(e, stable)
		}
	}
	return nil
}

func (l *Loop) onPositions(p PositionsResolved) error {
	if e := l.resets[p.Token]; e != nil {
		delete(l.resets, p.Token)
		return l.reset(e, p)
	}
	e := l.waiting(p.Token)
	if e == nil {
		return nil
	}
	if p.Err != nil {
		return p.Err
	}
	e.token = 0
	for tp, at := range p.At {
		e.at[tp] = broker.Offset{At: at, Metadata: e.at[tp].Metadata}
	}
	e.search = found
	return l.startIfReady(e)
}

// reset moves a running task to a position that was resolved anew because the one before fell out of the log. A task that
// was given up or taken back meanwhile runs into it again.
func (l *Loop) reset(e *entry, p PositionsResolved) error {
	if l.tasks[e.id] != e || !e.ready() {
		return nil
	}
	if p.Err != nil {
		return p.Err
	}
	for tp, at := range p.At {
		e.task.Seek(tp, at)
		l.slot.Fetcher.Start(tp, at)
	}
	return nil
}
