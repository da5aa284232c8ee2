package task

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Handled is a Chain that has error handlers, as a *topology.Instance has. One that is not Handled fails at each error.
type Handled interface {
	Handlers() topology.Handlers
	// Sink names the node that writes a topic.
	Sink(topic string) string
	// Unreadable says, after a panic, whether the source's codec was it.
	Unreadable(topic string, raw *record.Raw) (source, part string, ok bool)
}

var (
	_ Chain   = (*topology.Instance)(nil)
	_ Handled = (*topology.Instance)(nil)
)

// Responses counts what was answered about records that failed, by topology.Stage and topology.Response.
type Responses [topology.Stages][topology.DeadLetter + 1]uint64

// Responses gives the counts since New. What was answered in an interval that was taken back stays counted.
func (t *Task) Responses() Responses { return t.responses }

// Dropped is how many records the stage left out on purpose: skipped and dead letters.
func (r *Responses) Dropped(s topology.Stage) uint64 {
	return r[s][topology.Skip] + r[s][topology.DeadLetter]
}

// DeadLetterError is a record that failed and could not be written to the dead-letter topic either. It is not tried
// again: the task fails, and its offset is not committed.
type DeadLetterError struct {
	// Cause is why the record failed, Err why there is no dead letter: ErrNoDeadLetterTopic, or a *broker.Error.
	Cause, Err error
}

// Error gives both.
func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%v; and it cannot be written to the dead-letter topic: %v", e.Cause, e.Err)
}

// Unwrap gives both.
func (e *DeadLetterError) Unwrap() []error { return []error{e.Cause, e.Err} }

// ErrNoDeadLetterTopic is in a DeadLetterError if the topology has none.
var ErrNoDeadLetterTopic = errors.New("the handler answered DeadLetter and the topology has no dead-letter topic; name one with Builder.DeadLetterTopic, or answer Skip or Fail")

// ask asks the handler of the stage and counts its answer. The error is a panic of the handler, or says that a dead
// letter has nowhere to go.
func (t *Task) ask(c topology.ErrorContext, why error) (r topology.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			r, err = topology.Fail, fmt.Errorf("%w; and the %s handler: %w", bare(why), c.Stage, &Panic{Value: v, Stack: debug.Stack()})
		}
		t.count(c.Stage, r)
		if t.span != nil {
			t.span.Answered(why, r)
		}
	}()
	if r = t.handlers.Answer(c, why); r > topology.DeadLetter {
		return topology.Fail, fmt.Errorf("%w; and the %s handler gave the answer %s, which there is not", bare(why), c.Stage, r)
	}
	if r == topology.DeadLetter && t.deadLetters == nil {
		return topology.Fail, &DeadLetterError{Cause: bare(why), Err: ErrNoDeadLetterTopic}
	}
	return r, nil
}

func (t *Task) count(s topology.Stage, r topology.Response) {
	t.responses[s][r]++
	if t.cfg.Answered != nil {
		t.cfg.Answered(s, r)
	}
}

// bare takes the coordinates off an error that gets them again.
func bare(err error) error {
	if e, ok := err.(*ProcessError); ok {
		return e.Cause
	}
	return err
}

// bury appends the dead letter of the record in process, which gets one however often it fails.
func (t *Task) bury(c topology.ErrorContext, why error) error {
	if c.Input != nil && t.current.buried == t.offset {
		return nil
	}
	r := t.deadLetter(c, why)
	if err := t.deadLetters.Send(&r, -1); err != nil {
		return &DeadLetterError{Cause: bare(why), Err: err}
	}
	if c.Input != nil {
		t.current.buried = t.offset
	}
	return nil
}

func (t *Task) deadLetter(c topology.ErrorContext, why error) record.Raw {
	var stack []byte
	if p := (*Panic)(nil); errors.As(why, &p) {
		stack = p.Stack
	}
	return topology.NewDeadLetter(c, bare(why), stack, t.wallClock)
}

// Refused implements topology.Output: it asks about an output that cannot be written. An error of the cluster itself was
// kept by Send, and nobody is asked about that.
func (o *output) Refused(r *record.Raw, partition int32, err *topology.SinkError) error {
	t := o.task
	if t.broken != nil {
		return err
	}
	c := t.errorContext(topology.Production, err.Node)
	c.Destination, c.Output = record.TopicPartition{Topic: o.topic, Partition: o.choice(r, partition)}, r
	response, failed := t.ask(c, err)
	if failed == nil && response == topology.DeadLetter {
		failed = t.bury(c, err)
	}
	if failed == nil && response == topology.Fail {
		failed = err
	}
	if failed != nil {
		t.fault(failed)
	}
	return failed
}

// choice is the partition of a record as far as it can be told without sending it; -1 if it cannot.
func (o *output) choice(r *record.Raw, partition int32) int32 {
	if partition < 0 && r.Key != nil && o.partitions > 0 {
		return record.Partition(r.Key, o.partitions)
	}
	return partition
}

// Writes says whether the task writes to a partition: a changelog of its own, a topic of one of its sinks, or the
// dead-letter topic. A changelog has one writer. Any task that writes a topic may be asked about a record that was
// refused there: handlers belong to the topology, so they answer the same, and only ErrorContext.Task and the count are
// that task's.
func (t *Task) Writes(tp record.TopicPartition) bool {
	return t.changelogs(tp) || t.outputTo(tp.Topic) != nil
}

func (t *Task) changelogs(tp record.TopicPartition) bool {
	for _, s := range t.cfg.Stores {
		if s.Changelog.Topic != "" && s.Changelog == tp {
			return true
		}
	}
	return false
}

func (t *Task) outputTo(topic string) *output {
	for _, o := range t.outputs {
		if o.topic == topic {
			return o
		}
	}
	return nil
}

// Refused asks about a record that a broker did not take although the producer did. It is for the interval that is
// being committed, between Prepare and Committed, or for the one before the next Prepare.
//
// Without an error the record is let go, and more, if there is any, must be sent in the same interval: its dead letter,
// with the key, value and headers of the output, as the input that it came from is not known any more. With an error,
// which is a *ProcessError with the Destination, only Rewind, Suspend and Close may follow: the handler answered Fail, or
// nobody was asked, because it was a changelog record, whose store would be wrong without it, or a dead letter itself,
// which is a *DeadLetterError. The error wraps ErrNotRunning if the task does not run.
func (t *Task) Refused(r broker.Refused) (more []broker.Outgoing, err error) {
	if err := t.running(); err != nil {
		return nil, err
	}
	why := &topology.SinkError{Node: t.sink(r.Source.Topic), Topic: r.Source.Topic, Cause: r.Err}
	switch {
	case t.changelogs(r.Source):
		return nil, t.refuse(r, r.Err)
	case t.deadLetters != nil && t.deadLetters.topic == r.Source.Topic:
		return nil, t.refuse(r, &DeadLetterError{Cause: errBuried, Err: r.Err})
	}
	c := t.errorContext(topology.Production, why.Node)
	c.Destination, c.Output = r.Source, &r.Record
	response, err := t.ask(c, why)
	switch {
	case err != nil:
		return nil, t.refuse(r, err)
	case response == topology.Fail:
		return nil, t.refuse(r, why)
	case response == topology.Skip:
		return nil, nil
	}
	dead := t.deadLetter(c, why)
	to := record.TopicPartition{Topic: t.deadLetters.topic, Partition: t.deadLetters.partition(&dead)}
	return []broker.Outgoing{{To: to, Record: dead}}, nil
}

// errBuried stands for the failure that a dead letter tells of, when the dead letter itself comes back.
var errBuried = errors.New("a record failed, as its dead letter says")

func (t *Task) sink(topic string) string {
	if h, ok := t.chain.(Handled); ok {
		return h.Sink(topic)
	}
	return ""
}

func (t *Task) refuse(r broker.Refused, cause error) error {
	e := t.failure(cause)
	e.Destination = r.Source
	t.failed = e
	return e
}
