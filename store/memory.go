package store

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-io/millrace/query/querypb"
)

// memory is the content of a store that is kept in memory only (StoreSpec.InMemory): rows in key order, in blocks. It never
// changes: a commit makes another one, which shares the blocks that it does not touch. So a reader keeps the state that it
// began with without a lock, and the new one is published with the view, together with its offset.
//
// Units and restores come sorted, so a merge walks once over the blocks that it touches. Rejected: a tree with a lock, in
// which a scan would hold up the writer or see half a commit; and a tree that copies its paths, with an allocation for each
// level of each key, where a block has one for a hundred rows.
type memory struct {
	// blocks are in order and none is empty.
	blocks [][]row
	rows   int
}

type row struct {
	key, value []byte
	timestamp  int64
}

const blockRows = 128

// memory is the content of an in-memory store as it is published now, nil for a store on disk.
func (t *TaskState) memory(store int) *memory { return t.view.Load().memories[store] }

// seek is the place of the first row at or above key.
func (m *memory) seek(key []byte) (block, at int) {
	block = sort.Search(len(m.blocks), func(i int) bool {
		b := m.blocks[i]
		return bytes.Compare(b[len(b)-1].key, key) >= 0
	})
	if block == len(m.blocks) {
		return block, 0
	}
	b := m.blocks[block]
	return block, sort.Search(len(b), func(i int) bool { return bytes.Compare(b[i].key, key) >= 0 })
}

func (m *memory) find(key []byte) *row {
	if block, at := m.seek(key); block < len(m.blocks) {
		if r := &m.blocks[block][at]; bytes.Equal(r.key, key) {
			return r
		}
	}
	return nil
}

// get is Get.
func (m *memory) get(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	r := m.find(key)
	if r == nil {
		return nil, 0, false, nil
	}
	return append(make([]byte, 0, len(r.value)), r.value...), r.timestamp, true, nil
}

// merge is the content after changes, which are sorted, each key once. Of them everything is copied.
func (m *memory) merge(changes []change) *memory {
	if len(changes) == 0 {
		return m
	}
	next := &memory{blocks: make([][]row, 0, len(m.blocks)+len(changes)/blockRows+1), rows: m.rows}
	for i, b := range m.blocks {
		n := len(changes)
		if i+1 < len(m.blocks) {
			above := m.blocks[i+1][0].key
			n = sort.Search(n, func(j int) bool { return bytes.Compare(changes[j].key, above) >= 0 })
		}
		if n == 0 {
			next.blocks = append(next.blocks, b)
			continue
		}
		next.add(b, changes[:n])
		changes = changes[n:]
	}
	next.add(nil, changes)
	return next
}

// add appends a block with changes made to it, cut to size.
func (m *memory) add(b []row, changes []change) {
	merged := make([]row, 0, len(b)+len(changes))
	for len(b) > 0 || len(changes) > 0 {
		order := 0
		switch {
		case len(b) == 0:
			order = 1
		case len(changes) == 0:
			order = -1
		default:
			order = bytes.Compare(b[0].key, changes[0].key)
		}
		if order < 0 {
			merged, b = append(merged, b[0]), b[1:]
			continue
		}
		if order == 0 {
			b, m.rows = b[1:], m.rows-1
		}
		if c := &changes[0]; c.value != nil {
			merged, m.rows = append(merged, rowOf(c)), m.rows+1
		}
		changes = changes[1:]
	}
	m.cut(merged)
}

// cut appends rows in blocks of at most blockRows, half full where they are cut, so that not each merge cuts again. Small
// ones that follow each other become one.
func (m *memory) cut(rows []row) {
	last := len(m.blocks) - 1
	if last >= 0 && len(m.blocks[last])+len(rows) <= blockRows/2 {
		m.blocks[last] = append(slices.Clip(m.blocks[last]), rows...) // a copy: the block is another one's too
		return
	}
	if len(rows) > blockRows {
		for part := range slices.Chunk(rows, blockRows/2) {
			m.blocks = append(m.blocks, slices.Clip(part))
		}
	} else if len(rows) > 0 {
		m.blocks = append(m.blocks, rows)
	}
}

func rowOf(c *change) row {
	b := make([]byte, 0, len(c.key)+len(c.value))
	b = append(append(b, c.key...), c.value...)
	n := len(c.key)
	return row{b[:n:n], b[n:], c.timestamp}
}

// without is the content without expired windows.
func (m *memory) without(s *StoreSpec, live int64) *memory {
	next := &memory{}
	for _, b := range m.blocks {
		kept := make([]row, 0, len(b))
		for _, r := range b {
			if !s.expired(r.key, live) {
				kept = append(kept, r)
			}
		}
		next.rows += len(kept)
		next.cut(kept)
	}
	return next
}

// walk calls f for the rows of a span until it is false.
func (m *memory) walk(s span, f func(r *row) bool) {
	lower, upper, empty := s.bounds(0)
	if empty {
		return
	}
	block, at := m.seek(lower[numberBytes:])
	endBlock, endAt := len(m.blocks), 0
	if s.to != nil {
		endBlock, endAt = m.seek(upper[numberBytes:])
	}
	for block < endBlock || block == endBlock && at < endAt {
		var r *row
		if s.reverse {
			if endAt--; endAt < 0 {
				endBlock--
				endAt = len(m.blocks[endBlock]) - 1
			}
			r = &m.blocks[endBlock][endAt]
		} else {
			r = &m.blocks[block][at]
			if at++; at == len(m.blocks[block]) {
				block, at = block+1, 0
			}
		}
		if !f(r) {
			return
		}
	}
}

// scanMemory is scan.
func (t *TaskState) scanMemory(m *memory, s span, yield func(Entry, error) bool) {
	var copies arena
	m.walk(s, func(r *row) bool {
		if t.engine.lease.ending() {
			yield(Entry{}, ErrStateStoreClosed)
			return false
		}
		return yield(Entry{Key: copies.copy(r.key), Value: copies.copy(r.value), Timestamp: r.timestamp}, nil)
	})
}

// walkMemory is walk.
func (t *TaskState) walkMemory(m *memory, s span, f func(key, value []byte, timestamp int64) bool) (err error) {
	defer recovered("scan", &err)
	m.walk(s, func(r *row) bool {
		if t.engine.lease.ending() {
			err = ErrStateStoreClosed
			return false
		}
		return f(r.key, r.value, r.timestamp)
	})
	return err
}

// getSomeMemory is getSome.
func (t *TaskState) getSomeMemory(m *memory, keys [][]byte, values []*querypb.Value, sizes []int, limit int) error {
	var copies arena
	for i, key := range keys {
		if limit < 0 {
			sizes[i] = unread
			continue
		}
		if t.engine.lease.ending() {
			return ErrStateStoreClosed
		}
		if r := m.find(key); r != nil {
			v := values[i]
			v.Present, v.Value, v.Timestamp = true, copies.copy(r.value), r.timestamp
			sizes[i] = len(r.value)
			limit -= len(r.value)
		}
	}
	return nil
}

// applyMemory makes the writes of a unit to in-memory stores.
func (t *TaskState) applyMemory(v *view, writes []Write) {
	for from := 0; from < len(writes); {
		to := from + 1
		for to < len(writes) && writes[to].Store == writes[from].Store {
			to++
		}
		if store := writes[from].Store; t.spec.Stores[store].InMemory {
			changes := make([]change, 0, to-from)
			for i, w := range writes[from:to] {
				changes = append(changes, change{w.Key, w.Value, w.Timestamp, i})
			}
			v.memories[store] = v.memories[store].merge(lastOfEach(changes))
		}
		from = to
	}
}

// check finds what a memory must not be.
func (m *memory) check() error {
	n := 0
	var last []byte
	for _, b := range m.blocks {
		if len(b) == 0 || len(b) > blockRows {
			return fmt.Errorf("store: a block in memory has %d rows", len(b))
		}
		for _, r := range b {
			if n++; n > 1 && bytes.Compare(last, r.key) >= 0 {
				return fmt.Errorf("store: key %x in memory comes after %x", r.key, last)
			}
			last = r.key
		}
	}
	if n != m.rows {
		return fmt.Errorf("store: %d rows in memory, counted %d", n, m.rows)
	}
	return nil
}
