package store

import (
	"bytes"
	"math"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// chosen are the entries that a question is about: windows that it names and that have not expired. The zero value is
// everything.
//
// The bounds of the engine's iterator are not enough. They leave out most of what is not asked for if the question names
// one key, and hardly anything if it names a range of them, because keys of two lengths interleave: of "a" and "a\x00" each
// has windows between those of the other. So each row is split and compared.
type chosen struct {
	// spec is nil if there is nothing to compare; filtered says that the question names windows.
	spec     *StoreSpec
	filtered bool
	// All bounds are included; a nil key is open.
	keyFrom, keyTo                     []byte
	startFrom, startTo, endFrom, endTo int64
}

// choose puts the first time that is live into the bounds.
func choose(s *StoreSpec, w *querypb.Windows, live int64) chosen {
	if w == nil && live <= 0 {
		return chosen{}
	}
	c := chosen{spec: s, filtered: w != nil, startFrom: math.MinInt64, startTo: math.MaxInt64, endFrom: math.MinInt64, endTo: math.MaxInt64}
	if w != nil {
		c.keyFrom, c.keyTo = w.KeyFrom, w.KeyTo
		set(&c.startFrom, w.StartFrom)
		set(&c.startTo, w.StartTo)
		set(&c.endFrom, w.EndFrom)
		set(&c.endTo, w.EndTo)
	}
	if s.Kind == kindSession {
		c.endFrom = max(c.endFrom, live)
	} else {
		c.startFrom = max(c.startFrom, live)
	}
	return c
}

func set(bound *int64, asked *int64) {
	if asked != nil {
		*bound = *asked
	}
}

// nothing says that no window can be chosen. A start is never after its end, and neither is before 0.
func (c *chosen) nothing() bool {
	return c.spec != nil && (c.startFrom > c.startTo || c.endFrom > c.endTo || c.startTo < 0 || c.endTo < 0 || c.startFrom > c.endTo)
}

// has says whether the entry of a key is chosen.
func (c *chosen) has(key []byte) bool {
	if c.spec == nil {
		return true
	}
	var start, end int64
	var ok bool
	if c.spec.Kind == kindSession {
		key, start, end, ok = record.SplitSessionKey(key)
	} else {
		key, start, _, ok = record.SplitWindowKey(key)
	}
	return ok && start >= c.startFrom && start <= c.startTo && end >= c.endFrom && end <= c.endTo &&
		bytes.Compare(key, c.keyFrom) >= 0 && (c.keyTo == nil || bytes.Compare(key, c.keyTo) <= 0)
}

// within narrows a span to where chosen keys can be.
func (c *chosen) within(s span) span {
	if c.nothing() {
		return span{from: []byte{}, to: []byte{}}
	}
	if !c.filtered {
		return s
	}
	from, to := c.lowest(), c.highest()
	if from != nil && (s.from == nil || bytes.Compare(from, s.from) > 0) {
		s.from, s.after = from, false
	}
	if to != nil && (s.to == nil || bytes.Compare(to, s.to) < 0) {
		s.to, s.through = to, true
	}
	return s
}

// one says that the question names one key; its windows are then one behind the other, but for those of longer keys.
func (c *chosen) one() bool {
	return c.keyFrom != nil && c.keyTo != nil && bytes.Equal(c.keyFrom, c.keyTo)
}

// lowest is at or below every key that can be chosen; nil is open.
func (c *chosen) lowest() []byte {
	switch {
	case !c.one():
		return c.keyFrom
	case c.spec.Kind == kindSession:
		return record.AppendSessionSuffix(bytes.Clone(c.keyFrom), 0, max(0, c.endFrom, c.startFrom))
	}
	return record.AppendWindowSuffix(bytes.Clone(c.keyFrom), max(0, c.startFrom), 0)
}

// highest is at or above every key that can be chosen; nil is open.
func (c *chosen) highest() []byte {
	if c.keyTo == nil {
		return nil
	}
	suffix := record.AppendWindowSuffix(nil, c.startTo, math.MaxUint32)
	if c.spec.Kind == kindSession {
		suffix = record.AppendSessionSuffix(nil, math.MaxInt64, c.endTo)
	}
	if c.one() {
		return append(bytes.Clone(c.keyTo), suffix...)
	}
	return record.UpperBound(c.keyTo, suffix)
}

// checkWindows refuses a question that does not fit the kind of the store.
func (a *storeActor) checkWindows(q question) error {
	kind, detail := query.KindMistake(q, a.spec.Kind)
	if kind == 0 {
		return nil
	}
	f := query.New(kind, a.spec.Name, a.state.spec.Partition)
	f.Detail = detail
	return f
}
