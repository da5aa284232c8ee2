package millrace

import (
	"errors"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// Answer is what a failure handler answers; see the constants.
type Answer = actors.Answer

const (
	// ReplaceThread restarts the thread after a back-off that doubles, with a cap and jitter, in its slot: same group
	// member, same producer. After too many restarts (WithRestarts) it is ShutdownNode. It is the default.
	ReplaceThread = actors.ReplaceThread
	// ShutdownNode ends this node: what other threads have done is committed, and Run returns the cause.
	ShutdownNode = actors.ShutdownNode
	// ShutdownApplication ends every node of the application; Run returns an *ApplicationShutdownError on each.
	ShutdownApplication = actors.ShutdownApplication
)

// Failure is what the uncaught-failure handler gets.
type Failure struct {
	// Thread and Epoch say which incarnation failed.
	Thread string
	Epoch  uint64
	// Attempt counts the failures of this thread within the restart window, this one included.
	Attempt int
	// Source and Offset are the record that was in process; Source.Topic is empty if there was none.
	Source record.TopicPartition
	Offset int64
	// Task is the task that failed, if the failure was a task's.
	Task   record.TaskID
	InTask bool
	Cause  error
}

func newFailure(cause error, attempt int) Failure {
	f := Failure{Attempt: attempt, Cause: cause}
	if t := (*thread.Failure)(nil); errors.As(cause, &t) {
		f.Thread, f.Epoch = t.Thread, t.Epoch
		if cause == error(t) { // else the handler has added something
			f.Cause = t.Cause
		}
	}
	if p := (*task.ProcessError)(nil); errors.As(cause, &p) {
		f.Source, f.Offset, f.Task, f.InTask = p.Source, p.Offset, p.Task, true
	}
	newGlobalFailure(&f, cause)
	return f
}

// fatal says that a restart cannot help: configuration, authorisation, a record that no broker takes, or one that was tried
// as often as it is to be.
func fatal(cause error) bool {
	if e := (*thread.ExhaustedError)(nil); errors.As(cause, &e) {
		return true
	}
	if b := (*broker.Error)(nil); errors.As(cause, &b) {
		// A position that the log does not hold is nobody's fault: a restart reads a global store anew.
		return b.Class == broker.Fatal && b.Code != broker.CodeOffsetOutOfRange
	}
	return false
}

// ErrAlreadyRun is what a second Run returns: a Node runs once. Make another with New.
var ErrAlreadyRun = errors.New("millrace: this node has run already: make another with New")

// ErrAbandoned is in the error of a Run or Shutdown whose time-out passed before everything was committed and closed.
var ErrAbandoned = errors.New("millrace: stopped waiting")
