package tasktest

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// Row is a value of a State.
type Row struct {
	Value     []byte
	Timestamp int64
}

// State is committed state in memory: one map per store. It is for one goroutine at a time.
type State struct {
	Stores []map[string]Row
	// Times are the highest timestamps that the stores were given, -1 for none.
	Times []int64
	// Positions is where the last applied unit came to.
	Positions record.Position
	// Err, while set, is what every read returns.
	Err error
	// Gets counts point reads: what a cache saves.
	Gets int
}

var _ task.State = (*State)(nil)

// NewState returns empty stores.
func NewState(stores int) *State {
	s := &State{}
	for range stores {
		s.Stores = append(s.Stores, map[string]Row{})
		s.Times = append(s.Times, -1)
	}
	return s
}

// Get implements task.State.
func (s *State) Get(store int, key []byte) (value []byte, timestamp int64, ok bool, err error) {
	s.Gets++
	if s.Err != nil {
		return nil, 0, false, s.Err
	}
	row, ok := s.Stores[store][string(key)]
	return bytes.Clone(row.Value), row.Timestamp, ok, nil
}

// Scan implements task.State on the rows that are there when it begins, as a database's iterator does. The bytes of a row
// are overwritten by the next one.
func (s *State) Scan(store int, from, to []byte, reverse bool) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		if s.Err != nil {
			yield(task.Entry{}, s.Err)
			return
		}
		rows := maps.Clone(s.Stores[store])
		keys := slices.Sorted(maps.Keys(rows))
		if reverse {
			slices.Reverse(keys)
		}
		var key, value []byte
		for _, k := range keys {
			if from != nil && k < string(from) || to != nil && k > string(to) {
				continue
			}
			clear(key)
			clear(value)
			key, value = append(key[:0], k...), append(value[:0], rows[k].Value...)
			if !yield(task.Entry{Key: key, Value: value, Timestamp: rows[k].Timestamp}, nil) {
				return
			}
		}
	}
}

// Apply writes a committed unit.
func (s *State) Apply(u *task.Unit) {
	s.Positions = maps.Clone(u.Position)
	for _, w := range u.Writes {
		s.Put(w.Store, string(w.Key), w.Value, w.Timestamp)
	}
}

// Position implements task.State.
func (s *State) Position() record.Position { return s.Positions }

// Time implements task.State.
func (s *State) Time(store int) int64 { return s.Times[store] }

// Put writes one key; a nil value deletes it.
func (s *State) Put(store int, key string, value []byte, timestamp int64) {
	s.Times[store] = max(s.Times[store], timestamp)
	if value == nil {
		delete(s.Stores[store], key)
		return
	}
	s.Stores[store][key] = Row{append([]byte{}, value...), timestamp}
}
