package topology

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/millrace-io/millrace/record/codec"
)

// StoreContext is a Context of any type.
type StoreContext interface {
	openStore(name string) (StateStore, error)
	openGlobal(name string) (GlobalState, error)
	host() Host
}

// table is a store's bytes and its codecs: what the views of all kinds have in common.
type table[K, V any] struct {
	name       string
	keys       codec.Codec[K]
	values     codec.Codec[V]
	state      StateStore
	copies     bool
	key, value []byte // scratch
}

func newTable[K, V any](name string, keys codec.Codec[K], values codec.Codec[V], state StateStore) table[K, V] {
	return table[K, V]{name: name, keys: keys, values: values, state: state, copies: codec.Copies(values)}
}

// decode copies the bytes first unless the codec never shares memory: a Set writes over a cell's bytes, and a string
// that shared them would change under the user's hands.
func (s *table[K, V]) decode(c *Cell) (V, error) {
	b := c.Value
	if !s.copies {
		b = present(bytes.Clone(b))
	}
	v, err := s.values.Decode(b)
	return v, storeError(s.name, err)
}

func (s *table[K, V]) set(c *Cell, v V, timestamp int64) error {
	var err error
	if s.value, err = s.values.Encode(s.value[:0], v); err != nil {
		return storeError(s.name, err)
	}
	return storeError(s.name, s.state.Set(c, present(s.value), timestamp))
}

// remove takes a cell out. Taking out what is not there is no error.
func (s *table[K, V]) remove(c *Cell) error {
	if !c.Present {
		return nil
	}
	return storeError(s.name, s.state.Set(c, nil, c.Timestamp))
}

// read gives a cell's value; found is false if it is absent.
func (s *table[K, V]) read(c *Cell) (value V, timestamp int64, found bool, err error) {
	if !c.Present {
		return value, 0, false, nil
	}
	value, err = s.decode(c)
	return value, c.Timestamp, err == nil, err
}

// bound encodes a key into memory of its own, because the body of a loop may use the scratch buffers. nil stays nil.
func (s *table[K, V]) bound(key *K) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	b, err := s.keys.Encode(nil, *key)
	return present(b), err
}

// bounds encodes the ends of a range of keys and refuses one that has no answer.
func (s *table[K, V]) bounds(from, to *K) (low, high []byte, err error) {
	if from == nil && to == nil {
		return nil, nil, nil
	}
	if !s.keys.Ordered() {
		return nil, nil, &RangeError{s.keys.Name(), "the key codec " + s.keys.Name() + " does not keep the order of keys; use an ordered one (codec.OrderedInt64 for numbers), or All"}
	}
	low, err = s.bound(from)
	if err == nil {
		high, err = s.bound(to)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("range: %w", err)
	}
	if from != nil && to != nil && bytes.Compare(low, high) > 0 {
		return nil, nil, &RangeError{s.keys.Name(), "its lower end is above its upper end; swap them"}
	}
	return low, high, nil
}

// bytesOf needs no copy: a Cell's Key is a string and never changes.
func bytesOf(key string) []byte {
	if key == "" {
		return empty
	}
	return unsafe.Slice(unsafe.StringData(key), len(key))
}

func storeOnce(name string, err error) error {
	if e := (*StoreError)(nil); errors.As(err, &e) {
		return err
	}
	return storeError(name, err)
}
