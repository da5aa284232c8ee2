package millrace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// operator is the node as Handler gives it to those who operate it.
type operator struct {
	*Node
	pace *pace
}

var (
	_ httpapi.Operator = operator{}
	_ httpapi.Measured = operator{}
	_ httpapi.Checked  = operator{}
	_ httpapi.Observed = operator{}
)

// Tree implements httpapi.Operator.
func (o operator) Tree(causes bool) any {
	root := o.Node.Tree()
	if !causes {
		silence(&root)
	}
	return root
}

// Started implements httpapi.Checked.
func (o operator) Started() bool { return o.Node.status.hasStarted() }

// DiskFull implements httpapi.Checked.
func (o operator) DiskFull() []string { return full(o.Node.Tree(), nil) }

// full adds the paths at and below a that wait for space.
func full(a Actor, paths []string) []string {
	if a.DiskFull {
		paths = append(paths, a.Path)
	}
	for _, c := range a.Children {
		paths = full(c, paths)
	}
	return paths
}

// silence takes the texts of causes out: they may hold paths and addresses of the host.
func silence(a *Actor) {
	if a.Cause != "" {
		a.Cause = httpapi.Silenced
	}
	if a.Quarantine != nil {
		q := *a.Quarantine
		q.Cause = httpapi.Silenced
		a.Quarantine = &q
	}
	for i := range a.Children {
		silence(&a.Children[i])
	}
}

// Quarantined implements httpapi.Operator.
func (o operator) Quarantined() (all []httpapi.Quarantined) {
	for _, th := range o.Node.Tree().Children {
		for _, t := range th.Children {
			if q := t.Quarantine; q != nil {
				all = append(all, httpapi.Quarantined{Task: strings.TrimPrefix(lastOf(t.Path), "task-"), Thread: lastOf(th.Path),
					Topic: q.Source.Topic, Partition: q.Source.Partition, Offset: q.Offset, Attempts: q.Attempts, Retry: q.Retry, Cause: q.Cause})
			}
		}
	}
	return all
}

// Order implements httpapi.Operator.
func (o operator) Order(ctx context.Context, r httpapi.Remedy, id record.TaskID, source record.TopicPartition, offset int64) error {
	give := map[httpapi.Remedy]func(context.Context, record.TaskID, ...OrderOption) error{
		httpapi.Skip: o.SkipRecord, httpapi.Retry: o.RetryTask, httpapi.DeadLetter: o.DeadLetterRecord,
	}[r]
	err := give(ctx, id, OnlyAt(source, offset))
	if err == nil {
		return nil
	}
	at := fmt.Sprintf("task %s at %s offset %d", id, source, offset)
	known := []struct {
		is     func(error) bool
		kind   httpapi.OrderKind
		detail string
	}{
		{is(ErrNotHere), httpapi.TaskNotHere, fmt.Sprintf("no thread of this node has task %s: ask the node that has it", id)},
		{is(thread.ErrNotQuarantined), httpapi.NotQuarantined, fmt.Sprintf("task %s is not in quarantine", id)},
		{is(thread.ErrOtherRecord), httpapi.OtherRecord, fmt.Sprintf("task %s is in quarantine at another record than offset %d of %s: look at it first", id, offset, source)},
		{is(thread.ErrOrderPending), httpapi.OrderPending, "another order is being carried out for " + at},
		{is(thread.ErrOrderLost), httpapi.OrderLost, "the thread was restarted, or has lost the task, before the order was carried out for " + at},
		{as[*task.DeadLetterError], httpapi.NoDeadLetter, "no dead letter can be made: the topology names no dead-letter topic, or it does not take the record of " + at},
		{as[*task.ProcessError], httpapi.RecordFails, "the record has failed again: " + at + "; the log says why"},
	}
	for _, k := range known {
		if k.is(err) {
			return &httpapi.OrderError{Kind: k.kind, Detail: k.detail, Cause: err}
		}
	}
	if ctx.Err() != nil {
		return &httpapi.OrderError{Kind: httpapi.OrderUnknown, Detail: "the order takes longer, and may be carried out yet: look at " + at + " again", Cause: err}
	}
	return &httpapi.OrderError{Kind: httpapi.OrderLost, Detail: "the order was not carried out for " + at, Cause: err}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
