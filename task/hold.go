package task

import (
	"errors"
	"slices"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// hold is a record that the task stops before.
type hold struct {
	buffer *buffer
	offset int64
	// failures is how often it has failed.
	failures int
	// lifted is set while the record is taken up.
	lifted bool
}

// ErrNotHeld is ProcessHeld and PassHeld when the record is not next. It is a bug of the caller.
var ErrNotHeld = errors.New("the record that is held is not next")

// Hold has Process stop before a record, which has failed so many times: it and all behind it in its partition wait for
// ProcessHeld or PassHeld. Records of other partitions with lower timestamps are processed. If the log does not have the
// record any more, the first one behind it takes its place. Start forgets it.
func (t *Task) Hold(tp record.TopicPartition, offset int64, failures int) {
	t.held = hold{buffer: t.buffer(tp), offset: offset, failures: failures}
}

// AtHeld says that everything before the held record is processed, and that it is here.
func (t *Task) AtHeld() bool {
	h := &t.held
	if h.buffer == nil || t.failed != nil {
		return false
	}
	ready, _ := t.ready()
	return ready && t.lowest() == h.buffer && h.buffer.head().Offset >= h.offset
}

// ProcessHeld takes up the held record and nothing else; then the hold is over. Handlers are asked as always, and learn
// how often it has failed (topology.ErrorContext.Attempt). Its error is as that of Process, or ErrNotHeld.
func (t *Task) ProcessHeld(now time.Time) error {
	if err := t.enter(now); err != nil {
		return err
	}
	if !t.AtHeld() {
		return ErrNotHeld
	}
	t.held.lifted = true
	_, err := t.Process(now, 1)
	t.held.lifted = false
	if err == nil {
		t.held = hold{}
	}
	return err
}

// PassHeld passes the held record unprocessed, with a dead letter that says why, or without. Position and times move past
// it. The error is a *ProcessError with a *DeadLetterError, after which only Rewind, Suspend and Close may follow, or
// ErrNotHeld.
func (t *Task) PassHeld(now time.Time, response topology.Response, why error) (err error) {
	if err := t.enter(now); err != nil {
		return err
	}
	if !t.AtHeld() {
		return ErrNotHeld
	}
	defer t.leave(&err)
	b := t.held.buffer
	r := b.head()
	t.current, t.offset = b, r.Offset
	if response == topology.DeadLetter {
		if t.deadLetters == nil {
			return &DeadLetterError{Cause: bare(why), Err: ErrNoDeadLetterTopic}
		}
		if err := t.bury(t.errorContext(topology.Processing, ""), why); err != nil {
			return err
		}
	}
	t.count(topology.Processing, response)
	b.time = max(b.time, r.Timestamp)
	t.streamTime = max(t.streamTime, r.Timestamp)
	t.passed(b, r.Offset)
	if b.index == len(b.batches[b.first].Records) {
		b.passBatch()
	}
	t.held = hold{}
	return nil
}

// before cuts records, of which the first index ones are done with, off at the held one.
func (h *hold) before(b *buffer, records []record.Raw) []record.Raw {
	if h.buffer != b || h.lifted {
		return records
	}
	n, _ := slices.BinarySearchFunc(records, h.offset, func(r record.Raw, at int64) int { return int(r.Offset - at) })
	return records[:n]
}

// stops says that the next record of a partition is held.
func (h *hold) stops(b *buffer) bool {
	return h.buffer == b && !h.lifted && b.head().Offset >= h.offset
}

// attempt is which try of the record in process this is.
func (h *hold) attempt(b *buffer, offset int64) int {
	if h.buffer == b && offset >= h.offset {
		return h.failures + 1
	}
	return 1
}
