package topology

import "iter"

// KeyValue is a store as a processor of one task sees it. It is for the task's goroutine only.
type KeyValue[K, V any] struct{ table[K, V] }

// Entry is one entry of a range.
type Entry[K, V any] struct {
	Key   K
	Value V
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
}

// In opens the store in a processor's Init. It is an error if the store is not connected to the processor.
func (s KeyValueStore[K, V]) In(ctx StoreContext) (*KeyValue[K, V], error) {
	state, err := ctx.openStore(s.name)
	if err != nil {
		return nil, err
	}
	return &KeyValue[K, V]{newTable(s.name, s.keys, s.values, state)}, nil
}

// cell encodes key into the scratch buffer and asks for its cell.
func (s *KeyValue[K, V]) cell(key K) (*Cell, error) {
	var err error
	if s.key, err = s.keys.Encode(s.key[:0], key); err != nil {
		return nil, storeError(s.name, err)
	}
	c, err := s.state.Cell(s.key)
	return c, storeError(s.name, err)
}

// Get gives the value of key; found is false if there is none. Its error is a
// *StoreError: the key cannot be encoded, the value cannot be decoded, or the store cannot be read.
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

// Put sets the value of key. The timestamp is the one of the value in the changelog and of what is emitted from it. Its
// error is a *StoreError: the key or the value cannot be encoded, or the store cannot be read or written.
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
	return storeError(s.name, s.state.Set(c, nil, c.Timestamp))
}

// Range gives the entries from from to to, both included, in the order of the keys. It is a *RangeError if the key codec is
// not Ordered, or if from is above to. An error is the last thing that is yielded.
func (s *KeyValue[K, V]) Range(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, false)
}

// ReverseRange is Range backwards.
func (s *KeyValue[K, V]) ReverseRange(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, true)
}

// All gives every entry by the byte order of the encoded keys, with any codec.
func (s *KeyValue[K, V]) All() iter.Seq2[Entry[K, V], error] { return s.between(nil, nil, false) }

// ReverseAll is All backwards.
func (s *KeyValue[K, V]) ReverseAll() iter.Seq2[Entry[K, V], error] { return s.between(nil, nil, true) }

func (s *KeyValue[K, V]) between(from, to *K, reverse bool) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		low, high, err := s.bounds(from, to)
		if err != nil {
			yield(Entry[K, V]{}, storeError(s.name, err))
			return
		}
		for c, err := range s.state.Range(low, high, reverse) {
			var e Entry[K, V]
			if err == nil {
				e, err = s.entry(c)
			}
			if !yield(e, storeOnce(s.name, err)) || err != nil {
				return
			}
		}
	}
}

func (s *KeyValue[K, V]) entry(c *Cell) (Entry[K, V], error) {
	key, err := s.keys.Decode(bytesOf(c.Key))
	if err != nil {
		return Entry[K, V]{}, err
	}
	value, err := s.decode(c)
	return Entry[K, V]{Key: key, Value: value, Timestamp: c.Timestamp}, err
}
