package task

import (
	"errors"
	"runtime/debug"

	"github.com/millrace-io/millrace/topology"
)

// attempt runs f, which runs user code, to its end. When it fails because of one record, a handler may let that go; f is
// then called again and goes on behind it. So a failure costs one more call, and a record that does not fail nothing: no
// recover per record.
//
// With a record in process every round passes one. In a punctuation or a flush every round takes away one of the calls
// that are due; as user code can make new ones due, a task whose handlers skip for ever would hang, so there is a limit.
func (t *Task) attempt(f func() error) error {
	left := skipLimit
	for _, o := range t.overlays {
		left += len(o.cells)
	}
	for {
		failure := t.guard(f)
		if failure != nil {
			if t.current == nil {
				left--
			}
			failure = t.letGo(failure, left >= 0)
			if failure == nil {
				continue
			}
			t.failed = failure
		}
		t.current = nil
		if failure == nil {
			return nil
		}
		return failure
	}
}

// skipLimit is how many failures without a record one call may have beside one for each cell in memory.
const skipLimit = 1_000

// guard runs f; a panic becomes an error, and either gets the coordinates of the record in process.
func (t *Task) guard(f func() error) (failure *ProcessError) {
	defer func() {
		if v := recover(); v != nil {
			failure = t.failure(&Panic{Value: v, Stack: debug.Stack()})
		}
	}()
	if cause := f(); cause != nil {
		return t.failure(cause)
	}
	if t.broken != nil {
		return t.failure(t.broken)
	}
	return nil
}

// leave is deferred by every call that runs user code and asks no handler. After an error the task is stuck where it
// happened, so it refuses everything that could commit half of it.
func (t *Task) leave(err *error) {
	cause := *err
	if v := recover(); v != nil {
		cause = &Panic{Value: v, Stack: debug.Stack()}
	} else if cause == nil {
		cause = t.broken
	}
	if cause != nil {
		e := t.failure(cause)
		t.failed, *err = e, e
	}
	t.current = nil
}

// failure gives an error the coordinates of the record in process.
func (t *Task) failure(cause error) *ProcessError {
	e := &ProcessError{Task: t.cfg.ID, Node: node(cause), Destination: destination(cause), Cause: cause}
	if p := (*Panic)(nil); errors.As(cause, &p) {
		e.Stack = p.Stack
	}
	if t.current != nil {
		e.Source, e.Offset = t.current.source, t.offset
	}
	if s := (*topology.SinkError)(nil); t.broken != nil && !errors.As(t.broken, &s) {
		e.Outside = true
	}
	return e
}

// fault keeps the first error that no handler is asked about: of a port, or of an output whose handler answered Fail. It
// counts even if the processor swallows it.
func (t *Task) fault(err error) {
	if t.broken == nil {
		t.broken = err
	}
}

// letGo asks the handler about a failure. nil: the record in process, if there is one, is passed.
func (t *Task) letGo(failure *ProcessError, more bool) *ProcessError {
	if t.broken != nil || !more {
		return failure
	}
	failure = t.unreadable(failure)
	stage := topology.Processing
	if d := (*topology.DeserializationError)(nil); errors.As(failure, &d) {
		stage = topology.Deserialization
	}
	c := t.errorContext(stage, failure.Node)
	response, err := t.ask(c, failure)
	if err == nil && response == topology.DeadLetter {
		err = t.bury(c, failure)
	}
	switch {
	case err != nil:
		return t.failure(err)
	case response == topology.Fail:
		return failure
	}
	if b := t.current; b != nil {
		t.passed(b, b.head().Offset)
		if b.index == len(b.batches[b.first].Records) {
			b.passBatch()
		}
	}
	return nil
}

// unreadable gives a panic of a source's codec its place.
func (t *Task) unreadable(failure *ProcessError) *ProcessError {
	p, panicked := failure.Cause.(*Panic)
	h, ok := t.chain.(Handled)
	if !panicked || !ok || t.current == nil {
		return failure
	}
	topic := t.current.source.Topic
	source, part, ok := h.Unreadable(topic, t.current.head())
	if !ok {
		return failure
	}
	return t.failure(&topology.DeserializationError{Source: source, Topic: topic, Part: part, Cause: p})
}

func (t *Task) errorContext(s topology.Stage, node string) topology.ErrorContext {
	c := topology.ErrorContext{Task: t.cfg.ID, Stage: s, Node: node}
	if b := t.current; b != nil {
		c.Source, c.Input = b.source, b.head()
		c.Attempt = t.held.attempt(b, t.offset)
	}
	return c
}
