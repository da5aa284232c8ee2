package millrace

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// ErrNotHere is what an order about a task ends in that this node does not have.
var ErrNotHere = errors.New("millrace: no thread of this node has the task: ask the node that has it")

// Quarantine says at which record a task fails. Its JSON keys are stable.
type Quarantine struct {
	Source record.TopicPartition `json:"source"`
	Offset int64                 `json:"offset"`
	// Attempts is how often it has failed; Retry is when it is tried again.
	Attempts int       `json:"attempts"`
	Retry    time.Time `json:"retry"`
	// Cause is the text of Err, the last failure.
	Cause string `json:"cause"`
	Err   error  `json:"-"`
}

func newQuarantine(q *thread.Quarantine) *Quarantine {
	if q == nil {
		return nil
	}
	return &Quarantine{Source: q.Source, Offset: q.Offset, Attempts: q.Failures, Retry: q.Retry, Cause: q.Cause.Error(), Err: q.Cause}
}

// OrderOption changes one thing about an order.
type OrderOption func(*thread.Order)

// OnlyAt has an order carried out only if the task is in quarantine at this record, so that none is passed that nobody has
// looked at.
func OnlyAt(source record.TopicPartition, offset int64) OrderOption {
	return func(o *thread.Order) { o.Only = &thread.Place{Source: source, Offset: offset} }
}

// SkipRecord passes the record at which a task is in quarantine, unprocessed, and returns when that is committed.
//
// Errors of this and of the next two: ErrNotHere; thread.ErrNotQuarantined; thread.ErrOtherRecord (OnlyAt); thread.ErrOrderPending while another order for
// the task is carried out; thread.ErrOrderLost if the thread is restarted or loses the task before; the context's cause,
// and then the order is carried out all the same.
func (n *Node) SkipRecord(ctx context.Context, id record.TaskID, opts ...OrderOption) error {
	return n.order(ctx, id, thread.SkipIt, opts)
}

// DeadLetterRecord passes the record as SkipRecord does, and writes a dead letter in the same transaction. Another error is a
// *task.DeadLetterError in the chain: there is no dead-letter topic, or it takes no record.
func (n *Node) DeadLetterRecord(ctx context.Context, id record.TaskID, opts ...OrderOption) error {
	return n.order(ctx, id, thread.BuryIt, opts)
}

// RetryTask tries the record now, without waiting for the end of the back-off. Another error is the *task.ProcessError of a
// try that failed.
func (n *Node) RetryTask(ctx context.Context, id record.TaskID, opts ...OrderOption) error {
	return n.order(ctx, id, thread.TryAgain, opts)
}

func (n *Node) order(ctx context.Context, id record.TaskID, remedy thread.Remedy, opts []OrderOption) error {
	slot := n.states.holder(id)
	if slot == nil {
		return ErrNotHere
	}
	done := make(chan error, 1)
	o := thread.Order{Task: id, Remedy: remedy, Done: func(err error) { done <- err }}
	for _, opt := range opts {
		opt(&o)
	}
	slot.Inbox.Put(o)
	select {
	case err := <-done:
		return err
	case <-n.stopped:
		return thread.ErrOrderLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holder is the slot whose incarnation has a task's state open; nil if none has.
func (s *states) holder(id record.TaskID) *thread.Slot {
	s.mu.Lock()
	k := s.keepers[id]
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}
