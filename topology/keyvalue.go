package topology

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"unsafe"

	"github.com/millrace-io/millrace/record/codec"
)

// KeyValue is a store as a processor of one task sees it. It is for the task's goroutine only.
type KeyValue[K, V any] struct {
	store      KeyValueStore[K, V]
	state      StateStore
	copies     bool
	key, value []byte // scratch
}

// Entry is one entry of a range.
type Entry[K, V any] struct {
	Key   K
	Value V
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
}

// StoreContext is a Context of any type.
type StoreContext interface {
	openStore(name string) (StateStore, error)
}

// In opens the store in a processor's Init. It is an error if the store is not connected to the processor.
func (s KeyValueStore[K, V]) In(ctx StoreContext) (*KeyValue[K, V], error) {
	state, err := ctx.openStore(s.name)
	if err != nil {
		return nil, err
	}
	return view(s, state), nil
}

func view[K, V any](s KeyValueStore[K, V], state StateStore) *KeyValue[K, V] {
	return &KeyValue[K, V]{store: s, state: state, copies: codec.Copies(s.values)}
}

// cell encodes key into the scratch buffer and asks for its cell.
func (s *KeyValue[K, V]) cell(key K) (*Cell, error) {
	var err error
	if s.key, err = s.store.keys.Encode(s.key[:0], key); err != nil {
		return nil, storeError(s.store.name, err)
	}
	c, err := s.state.Cell(s.key)
	return c, storeError(s.store.name, err)
}

// decode copies the bytes first unless the codec never shares memory: a Set writes over a cell's bytes, and a string
// that shared them would change under the user's hands.
func (s *KeyValue[K, V]) decode(c *Cell) (V, error) {
	b := c.Value
	if !s.copies {
		b = present(bytes.Clone(b))
	}
	v, err := s.store.values.Decode(b)
	return v, storeError(s.store.name, err)
}

func (s *KeyValue[K, V]) set(c *Cell, v V, timestamp int64) error {
	var err error
	if s.value, err = s.store.values.Encode(s.value[:0], v); err != nil {
		return storeError(s.store.name, err)
	}
	return storeError(s.store.name, s.state.Set(c, present(s.value), timestamp))
}

// Get gives the value of key; found is false if there is none.
func (s *KeyValue[K, V]) Get(key K) (value V, found bool, err error) {
	value, _, found, err = s.GetTimestamped(key)
	return value, found, err
}

// GetTimestamped is Get with the timestamp, in milliseconds since the Unix epoch.
func (s *KeyValue[K, V]) GetTimestamped(key K) (value V, timestamp int64, found bool, err error) {
	c, err := s.cell(key)
	if err != nil || !c.Present {
		return value, 0, false, err
	}
	value, err = s.decode(c)
	return value, c.Timestamp, err == nil, err
}

// Put sets the value of key. The timestamp is the one of the value in the changelog and of what is emitted from it.
func (s *KeyValue[K, V]) Put(key K, value V, timestamp int64) error {
	c, err := s.cell(key)
	if err != nil {
		return err
	}
	return s.set(c, value, timestamp)
}

// Delete takes key out. Taking out what is not there is no error.
func (s *KeyValue[K, V]) Delete(key K) error {
	c, err := s.cell(key)
	if err != nil || !c.Present {
		return err
	}
	return storeError(s.store.name, s.state.Set(c, nil, c.Timestamp))
}

// Range gives the entries from from to to, both included, by the byte order of the encoded keys (the order of the keys
// only if the key codec is Ordered). An error is the last thing that is yielded.
func (s *KeyValue[K, V]) Range(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, false)
}

// ReverseRange is Range backwards.
func (s *KeyValue[K, V]) ReverseRange(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, true)
}

// All gives every entry, ReverseAll backwards.
func (s *KeyValue[K, V]) All() iter.Seq2[Entry[K, V], error]        { return s.between(nil, nil, false) }
func (s *KeyValue[K, V]) ReverseAll() iter.Seq2[Entry[K, V], error] { return s.between(nil, nil, true) }

func (s *KeyValue[K, V]) between(from, to *K, reverse bool) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		low, err := s.bound(from)
		high, err2 := s.bound(to)
		if err != nil || err2 != nil {
			yield(Entry[K, V]{}, storeError(s.store.name, fmt.Errorf("range: %w", cmpErr(err, err2))))
			return
		}
		for c, err := range s.state.Range(low, high, reverse) {
			var e Entry[K, V]
			if err == nil {
				e, err = s.entry(c)
			}
			if !yield(e, storeOnce(s.store.name, err)) || err != nil {
				return
			}
		}
	}
}

// bound allocates: the loop body may use the scratch buffers.
func (s *KeyValue[K, V]) bound(key *K) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	b, err := s.store.keys.Encode(nil, *key)
	return slices.Clip(present(b)), err
}

func (s *KeyValue[K, V]) entry(c *Cell) (Entry[K, V], error) {
	key, err := decodeKey(s.store.keys, c)
	if err != nil {
		return Entry[K, V]{}, err
	}
	value, err := s.decode(c)
	return Entry[K, V]{Key: key, Value: value, Timestamp: c.Timestamp}, err
}

// decodeKey needs no copy: a Cell's Key is a string and never changes.
func decodeKey[K any](keys codec.Codec[K], c *Cell) (K, error) {
	if c.Key == "" {
		return keys.Decode(empty)
	}
	return keys.Decode(unsafe.Slice(unsafe.StringData(c.Key), len(c.Key)))
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func storeOnce(name string, err error) error {
	if _, ok := err.(*StoreError); ok {
		return err
	}
	return storeError(name, err)
}
