package task

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// ProcessError is a record, a punctuation, a flush or a start that a task could not get through: an error or a panic of
// user code, a record that cannot be decoded, a store or an output that failed. Which one it was is found in Cause with
// errors.As: *Panic, *topology.DeserializationError, *topology.ProcessorError, *broker.Error, an error of the engine.
type ProcessError struct {
	Task record.TaskID
	// Source and Offset are the record that was in process; Source.Topic is empty if there was none.
	Source record.TopicPartition
	Offset int64
	// Destination is the output or changelog record that could not be written; its Topic is empty if it was not that.
	Destination record.TopicPartition
	// Node is the node of the topology that failed, empty if that is not known.
	Node string
	// Cause is the bare error.
	Cause error
	// Stack is where user code panicked, nil if it did not.
	Stack []byte
	// Outside says that a store or the cluster has failed, not user code and not the record.
	Outside bool
}

// Error names the task and the record.
func (e *ProcessError) Error() string {
	switch {
	case e.Source.Topic != "":
	case e.Destination.Topic != "":
		return fmt.Sprintf("task %s: record for %s: %v", e.Task, e.Destination, e.Cause)
	default:
		return fmt.Sprintf("task %s: %v", e.Task, e.Cause)
	}
	return fmt.Sprintf("task %s: record at offset %d of %s: %v%s", e.Task, e.Offset, e.Source, e.Cause, e.way())
}

// way names the handler that can let a task go on behind the record; it is empty if none is asked.
func (e *ProcessError) way() string {
	handler := ""
	switch {
	case as[*DeadLetterError](e.Cause): // it says itself what to do
		return ""
	case as[*topology.DeserializationError](e.Cause):
		handler = "OnDeserializationError"
	case as[*topology.SinkError](e.Cause):
		handler = "OnProductionError"
	case as[*topology.ProcessorError](e.Cause), as[*Panic](e.Cause):
		handler = "OnProcessingError"
	default:
		return ""
	}
	return "; to go on without such records, answer Skip or DeadLetter in " + handler
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Unwrap gives the cause.
func (e *ProcessError) Unwrap() error { return e.Cause }

// Panic is the Cause when user code panicked.
type Panic struct {
	Value any
	// Stack is where it was.
	Stack []byte
}

// Error gives the panic's value.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap gives the panic's value if it is an error, such as a runtime.Error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// The duties of doc.go that a caller can break. Each is a bug of the caller and is returned bare.
var (
	// ErrNotRunning: the task is not RUNNING, or it has failed and was not rewound.
	ErrNotRunning = errors.New("the task is not running")
	// ErrCommitUnderWay: Prepare before the unit of the last one was Applied.
	ErrCommitUnderWay = errors.New("the commit before this one is still under way")
)

// destination is the partition that a record could not be written to.
func destination(cause error) (tp record.TopicPartition) {
	if b := (*broker.Error)(nil); errors.As(cause, &b) && b.Class == broker.Record {
		return b.Source
	}
	return tp
}

// node finds the place that an error of the topology names.
func node(cause error) string {
	if e := (*topology.ProcessorError)(nil); errors.As(cause, &e) {
		return e.Node
	}
	if e := (*topology.SinkError)(nil); errors.As(cause, &e) {
		return e.Node
	}
	if e := (*topology.DeserializationError)(nil); errors.As(cause, &e) {
		return e.Source
	}
	return ""
}
