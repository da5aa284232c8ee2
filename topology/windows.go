package topology

import (
	"fmt"
	"time"
)

// Windows say into which windows of time the records of a key fall. Everything counts in whole milliseconds.
type Windows struct {
	shape                windowShape
	size, advance, grace time.Duration
}

type windowShape uint8

const (
	tumbling windowShape = iota
	hopping
	sliding
	session
)

func (s windowShape) String() string {
	return [...]string{"tumbling", "hopping", "sliding", "session"}[s]
}

// TumblingWindows are windows of one size, aligned to 0, that neither overlap nor leave gaps. A window from 0 of size 10
// holds the timestamps 0 to 9.
func TumblingWindows(size time.Duration) Windows {
	return Windows{shape: tumbling, size: size, advance: size}
}

// HoppingWindows are windows of one size, one of which begins every advance, from 0 on; advance is at most size.
func HoppingWindows(size, advance time.Duration) Windows {
	return Windows{shape: hopping, size: size, advance: advance}
}

// SlidingWindows put records together that are at most difference apart (KIP-450). Every record ends a window that begins
// difference before it, or at 0, and begins one right behind itself if a record follows within that. Both ends are
// included: a difference of 10 holds the timestamps 0 to 10.
func SlidingWindows(difference time.Duration) Windows {
	return Windows{shape: sliding, size: difference, advance: time.Millisecond}
}

// WithGrace returns the windows with a grace period: for how long after the end of a window, in stream time, records for
// it are taken. It is 0 unless said otherwise.
func (w Windows) WithGrace(grace time.Duration) Windows { w.grace = grace; return w }

// String describes the windows, as Describe does.
func (w Windows) String() string {
	s := w.shape.String() + " " + w.size.String()
	if w.shape == hopping {
		s += " every " + w.advance.String()
	}
	return s + ", grace " + w.grace.String()
}

// Sessions put records of a key together that are at most an inactivity gap apart. The start and the end of a session are
// timestamps of records, both included.
type Sessions struct{ gap, grace time.Duration }

// SessionWindows are sessions with an inactivity gap. A record at a distance of exactly the gap still belongs to the
// session.
func SessionWindows(gap time.Duration) Sessions { return Sessions{gap: gap} }

// WithGrace returns the sessions with a grace period; see Windows.WithGrace.
func (w Sessions) WithGrace(grace time.Duration) Sessions { w.grace = grace; return w }

// String describes the sessions, as Describe does.
func (w Sessions) String() string {
	return session.String() + " gap " + w.gap.String() + ", grace " + w.grace.String()
}

// span is windows in milliseconds. A window that ends at end is closed, and takes no more records, when stream time is
// after end + delay. Kafka Streams: end + grace <= stream time for windows whose end is excluded, end + grace < stream
// time for those whose end is included, and the gap on top for sessions (KAFKA-8289, KAFKA-12718).
type span struct {
	shape                windowShape
	size, advance, grace int64
}

func (w Windows) span() span {
	return span{w.shape, w.size.Milliseconds(), w.advance.Milliseconds(), w.grace.Milliseconds()}
}

func (w Sessions) span() span {
	return span{session, w.gap.Milliseconds(), 1, w.grace.Milliseconds()}
}

// closed says that a window which ends at end is closed at a stream time.
func (s *span) closed(end, now int64) bool {
	switch s.shape {
	case sliding:
		return end+s.grace < now
	case session:
		return end+s.size+s.grace < now
	}
	return end+s.grace <= now
}

// first is the start of the first window that holds a timestamp.
func (s *span) first(timestamp int64) int64 {
	return max(0, timestamp-s.size+s.advance) / s.advance * s.advance
}

// check refuses windows that cannot be, and a store that forgets them too early.
func (s *span) check(b *Builder, node, store string, d *StoreSpec) {
	need := s.size + s.grace
	if s.shape == sliding {
		// A record asks for windows up to twice the difference before it; the two are what lies between them.
		need = 2*s.size + s.grace + 2
	}
	switch retention := d.Retention.Milliseconds(); {
	case s.size < 1:
		b.fail(node, InvalidWindows, "%s windows of %d ms are too short; use at least 1 ms", s.shape, s.size)
	case s.advance < 1 || s.advance > s.size:
		b.fail(node, InvalidWindows, "an advance of %d ms leaves gaps or never ends; use 1 ms to the size, %d ms", s.advance, s.size)
	case s.grace < 0:
		b.fail(node, InvalidWindows, "the grace period is %d ms; use 0 or more", s.grace)
	case d.Kind == windowKind && d.WindowSize.Milliseconds() != s.size:
		b.fail(node, InvalidWindows, "its windows have %d ms and those of store %q %d ms; use one size", s.size, store, d.WindowSize.Milliseconds())
	case retention < need:
		b.fail(node, ShortRetention, "store %q keeps windows for %d ms, and they take records for %d ms; lengthen the retention", store, retention, need)
	}
}

// emission is when an aggregation forwards, and what may move its stream time.
type emission struct {
	every, final bool
	jump         time.Duration
}

// String describes the emission of windows, as Describe does.
func (e emission) String() string {
	s := ", emit once per commit"
	switch {
	case e.every:
		s = ", emit every update"
	case e.final:
		s = ", emit on window close"
	}
	if e.jump > 0 {
		s += fmt.Sprintf(", at most %s ahead", e.jump)
	}
	return s
}

// OnWindowClose makes a windowed aggregation forward each window once, when it is closed: when stream time has passed its
// end and the grace period (for sessions the inactivity gap as well). It forwards at the commit that follows, the windows
// that end first first. Windows that are open at a restart are forwarded by the incarnation in which they close; what a
// commit has forwarded is not forwarded again. A window that no later record closes stays open.
//
// A session that is closed is final: a record within the gap of it that is not late itself begins another one. (Kafka
// Streams merges the two, and emits the first one's records twice.)
//
// At least once, what a failed commit may have forwarded is forwarded again. That goes by the stream time of the committed
// offsets, so timestamps should be the records' own or their topic's extractor's (WithTimestamp): a Map that lowers them
// hides what has to be repeated.
//
// It keeps the key of each open window in memory, and reads the whole store once at each start.
func OnWindowClose() AggregateOption { return func(e *emission) { e.final = true } }

// MaxTimestampJump bounds by how much one record may move the stream time of a windowed aggregation. A record beyond it is
// a *TimestampJumpError, which the processing handler decides about (Skip, DeadLetter, Fail); stream time stays, so the
// honest records behind it are not late. The first record that the aggregation ever sees is not bounded: there is nothing
// to measure it by. Without this option, or with 0, one clock that is a day ahead makes a day of honest records late.
func MaxTimestampJump(d time.Duration) AggregateOption { return func(e *emission) { e.jump = d } }

func emissionOf(b *Builder, node string, windowed bool, opts []AggregateOption) (e emission) {
	for _, o := range opts {
		o(&e)
	}
	switch {
	case !windowed && (e.final || e.jump != 0):
		b.fail(node, ConflictingSettings, "OnWindowClose and MaxTimestampJump are for windowed aggregations")
	case e.every && e.final:
		b.fail(node, ConflictingSettings, "EveryUpdate and OnWindowClose exclude each other")
	case e.jump < 0:
		b.fail(node, ConflictingSettings, "MaxTimestampJump is %s; use 0 or more", e.jump)
	}
	return e
}
