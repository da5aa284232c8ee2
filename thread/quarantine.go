package thread

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// Quarantine is a record at which a task fails. The slot remembers it over incarnations.
type Quarantine struct {
	Task   record.TaskID
	Source record.TopicPartition
	Offset int64
	// Failures counts the tries, the first, which ended an incarnation, included.
	Failures int
	// Cause is the last failure; Retry is when the record is tried again.
	Cause error
	Retry time.Time
}

// QuarantinePolicy is how a record that has failed once is tried again. With First = 0 it is tried like any other record,
// and each failure ends the incarnation.
type QuarantinePolicy struct {
	// First and Cap bound the back-off between the tries, which doubles.
	First, Cap time.Duration
	// Attempts is after how many failures of one record the incarnation ends with an *ExhaustedError; 0 is never.
	Attempts int
}

func (p QuarantinePolicy) backOff(failures int) time.Duration {
	if shift := max(0, failures-2); shift < 30 && p.First<<shift < p.Cap {
		return p.First << shift
	}
	return p.Cap
}

// ExhaustedError ends an incarnation whose record has failed as often as QuarantinePolicy.Attempts says. A restart cannot
// help it. Cause is the last failure, a *task.ProcessError.
type ExhaustedError struct {
	Failures int
	Cause    error
}

// Error says how often.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("failed %d times: %v", e.Failures, e.Cause)
}

// Unwrap gives the last failure.
func (e *ExhaustedError) Unwrap() error { return e.Cause }

// Remedy is what an operator wants done about a quarantined record.
type Remedy uint8

const (
	// TryAgain tries it at once.
	TryAgain Remedy = iota
	// SkipIt passes it unprocessed.
	SkipIt
	// BuryIt passes it with a dead letter.
	BuryIt
)

// Order is a message to the loop: a remedy for one task. Done is called once, on the loop's goroutine, and must not block:
// with nil when the record is passed and that is committed; with the failure of the try, a *task.ProcessError; with
// ErrNotQuarantined, ErrOtherRecord or ErrOrderPending; or with ErrOrderLost if the incarnation, or its right to the task, ends before.
type Order struct {
	Task   record.TaskID
	Remedy Remedy
	// Only, if not nil, names the record that is meant.
	Only *Place
	Done func(error)
}

// Place is where a record is.
type Place struct {
	Source record.TopicPartition
	Offset int64
}

// What an Order can end in.
var (
	ErrNotQuarantined = errors.New("thread: the task is not in quarantine: nothing of it has failed twice in a row")
	ErrOtherRecord    = errors.New("thread: the task is in quarantine at another record than the order names")
	ErrOrderPending   = errors.New("thread: the order before this one is not carried out yet")
	ErrOrderLost      = errors.New("thread: the thread was restarted, or has lost the task, before the record was dealt with: ask again")
)

// QuarantineWatcher is a Watcher that is also told when a task's flag changes; nil takes it away.
type QuarantineWatcher interface {
	Quarantined(id record.TaskID, q *Quarantine)
}

// isolation is the loop's part of quarantine.
//
// A record that ended an incarnation is held by the next one: everything before it is processed and committed as usual.
// When its turn comes, everybody else stops, what is uncommitted is committed, and the record is processed alone, in an
// interval of its own. If it fails, that interval holds nothing but its own doings, so taking it back takes back nothing
// else. The easy version, to go on with the record in the common interval, has each failure throw away what all tasks of
// the thread have done since the last commit, for ever.
type isolation struct {
	// turn is the task whose record is to be tried, nil if none is; tried says that it was, and its commit is on its way.
	turn  *entry
	tried bool
	// only is the task that goes back to the last commit, if the others need not.
	only   *entry
	orders map[record.TaskID]Order
}

// blames says whether a failure is one record's fault, and whose.
func blames(cause error) *task.ProcessError {
	p := (*task.ProcessError)(nil)
	if !errors.As(cause, &p) || p.Source.Topic == "" || p.Outside {
		return nil
	}
	return p
}

// remember notes the record that has ended this incarnation.
func (l *Loop) remember(cause error) {
	p := blames(cause)
	if p == nil || l.cfg.Quarantine.First <= 0 {
		return
	}
	if q := l.slot.quarantine[p.Task]; q != nil && q.Source == p.Source && q.Offset == p.Offset {
		return // counted when it was tried
	}
	l.slot.quarantine[p.Task] = &Quarantine{Task: p.Task, Source: p.Source, Offset: p.Offset, Failures: 1, Cause: p, Retry: l.now}
}

// hold has a task that starts stop before the record that is remembered of it, unless that was passed meanwhile. A task
// that is fresh in this incarnation is flagged, if it was.
func (l *Loop) hold(e *entry, fresh bool) {
	q := l.slot.quarantine[e.id]
	if q == nil {
		return
	}
	if at, ok := e.at[q.Source]; !ok || at.At > q.Offset {
		delete(l.slot.quarantine, e.id)
		return
	}
	e.task.Hold(q.Source, q.Offset, q.Failures)
	if fresh && q.Failures > 1 {
		l.flag(e.id, q)
	}
}

func (l *Loop) flag(id record.TaskID, q *Quarantine) {
	if w, ok := l.cfg.Watcher.(QuarantineWatcher); ok {
		if q != nil {
			c := *q
			q = &c
		}
		w.Quarantined(id, q)
	}
}

// isolate gives a held record its turn.
func (l *Loop) isolate() error {
	if len(l.slot.quarantine) == 0 || l.stopping || l.rewinding || l.slot.aborting != 0 {
		return nil
	}
	if l.alone.turn == nil {
		l.alone.turn, l.alone.tried = l.due(), false
	}
	e := l.alone.turn
	switch {
	case e == nil || l.alone.tried || l.commit != nil:
		return nil
	case l.needsCommit():
		l.commitNow = true
		return nil
	}
	return l.try(e)
}

// others says that everybody but the task whose turn it is waits.
func (l *Loop) othersWait() bool { return l.alone.turn != nil && !l.alone.tried }

// due is a task whose held record is next and is to be tried now.
func (l *Loop) due() *entry {
	for _, e := range l.running {
		q := l.slot.quarantine[e.id]
		if q == nil || e.revoking || !e.task.AtHeld() {
			continue
		}
		if _, asked := l.alone.orders[e.id]; asked || !l.now.Before(q.Retry) {
			return e
		}
	}
	return nil
}

// nextTry is when a held record is due; the zero time if none is.
func (l *Loop) nextTry() (next time.Time) {
	for _, e := range l.running {
		if q := l.slot.quarantine[e.id]; q != nil && !e.revoking && e.task.AtHeld() && (next.IsZero() || q.Retry.Before(next)) {
			next = q.Retry
		}
	}
	return next
}

func (l *Loop) try(e *entry) error {
	q, began := l.slot.quarantine[e.id], l.cfg.Work.clock()
	var err error
	switch o, asked := l.alone.orders[e.id]; {
	case asked && o.Remedy == SkipIt:
		err = e.task.PassHeld(l.now, topology.Skip, q.Cause)
	case asked && o.Remedy == BuryIt:
		err = e.task.PassHeld(l.now, topology.DeadLetter, q.Cause)
	default:
		err = e.task.ProcessHeld(l.now)
	}
	if err != nil {
		return l.failedAlone(e, q, err)
	}
	e.processed(1)
	l.cfg.Work.processed(1, began)
	e.task.Credits(l.credit)
	l.alone.tried = true
	return l.beginCommit([]*entry{e})
}

// failedAlone takes one try back, and nothing else.
func (l *Loop) failedAlone(e *entry, q *Quarantine, err error) error {
	p := blames(err)
	if p == nil {
		return err
	}
	q.Failures++
	q.Cause, q.Retry = p, l.now.Add(l.cfg.Quarantine.backOff(q.Failures))
	l.cfg.Log.Warn("a record has failed again; its task waits, the others go on", "thread", l.slot.Name, "task", e.id, "record", p.Source, "offset", p.Offset,
		"failures", q.Failures, "retry", q.Retry, "cause", p.Cause)
	l.flag(e.id, q)
	l.answer(e.id, p)
	if n := l.cfg.Quarantine.Attempts; n > 0 && q.Failures >= n {
		return &ExhaustedError{q.Failures, p}
	}
	l.alone.turn, l.alone.only = nil, e
	l.rewinding = true
	l.slot.abort()
	return nil
}

// passedAlone: the commit of a held record has reached the state.
func (l *Loop) passedAlone() {
	e := l.alone.turn
	if e == nil || !l.alone.tried {
		return
	}
	l.alone.turn, l.alone.tried = nil, false
	if l.tasks[e.id] != e {
		return
	}
	q := l.slot.quarantine[e.id]
	delete(l.slot.quarantine, e.id)
	if q != nil && q.Failures > 1 {
		l.flag(e.id, nil)
	}
	l.cfg.Log.Info("a record that had failed is passed", "thread", l.slot.Name, "task", e.id, "record", q.Source, "offset", q.Offset)
	l.answer(e.id, nil)
}

// putOff ends a turn whose interval is taken back for another reason.
func (l *Loop) putOff() {
	if e := l.alone.turn; e != nil {
		if q := l.slot.quarantine[e.id]; q != nil {
			q.Retry = l.now.Add(l.cfg.Quarantine.First)
		}
	}
	l.alone.turn, l.alone.tried, l.alone.only = nil, false, nil
}

func (l *Loop) onOrder(o Order) {
	_, busy := l.alone.orders[o.Task]
	switch {
	case l.tasks[o.Task] == nil || l.machine.State() == lifecycle.ThreadPendingShutdown:
		o.Done(ErrOrderLost)
	case busy:
		o.Done(ErrOrderPending)
	case l.slot.quarantine[o.Task] == nil:
		o.Done(ErrNotQuarantined)
	case o.Only != nil && *o.Only != Place{l.slot.quarantine[o.Task].Source, l.slot.quarantine[o.Task].Offset}:
		o.Done(ErrOtherRecord)
	default:
		l.alone.orders[o.Task] = o
	}
}

// answer ends an order.
func (l *Loop) answer(id record.TaskID, err error) {
	if o, ok := l.alone.orders[id]; ok {
		delete(l.alone.orders, id)
		o.Done(err)
	}
}

// leaves ends what was going on about a task that is given up.
func (l *Loop) leaves(e *entry) {
	if l.alone.turn == e {
		l.alone.turn, l.alone.tried = nil, false
	}
	l.answer(e.id, ErrOrderLost)
}
