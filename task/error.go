package task

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
)

// ProcessError is a record, a punctuation or a flush that a task could not get through: an error or a panic of user
// code, a record that cannot be decoded, a store or an output that failed.
type ProcessError struct {
	Task record.TaskID
	// Source and Offset are the record that was in process; Source.Topic is empty in a punctuation or a flush.
	Source record.TopicPartition
	Offset int64
	// Cause is the bare error, found with errors.Is and errors.As. For a panic it is a *Panic.
	Cause error
}

// Error names the task and the record.
func (e *ProcessError) Error() string {
	if e.Source.Topic == "" {
		return fmt.Sprintf("task %s: %v", e.Task, e.Cause)
	}
	return fmt.Sprintf("task %s: record at offset %d of %s: %v", e.Task, e.Offset, e.Source, e.Cause)
}

// Unwrap gives the cause.
func (e *ProcessError) Unwrap() error { return e.Cause }

// Panic is a panic of user code.
type Panic struct {
	Value any
	Stack []byte
}

// Error gives the panic's value; the stack is in Stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }
