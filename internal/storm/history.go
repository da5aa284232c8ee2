package main

import (
	"sort"
	"sync"
)

// history is the log of each input partition as its only writer knows it.
//
// The mutex protects all of it: a feeder writes each partition and all clients read, thousands of times in a second, so an
// owner goroutine would be what the storm measures.
type history struct {
	mu    sync.RWMutex
	parts [partitions]column
}

// column is one partition: the offsets of each key, in order, and the next offset.
type column struct {
	next    int64
	offsets map[string][]int64
}

// add notes the keys of records that are about to be written, before they are: a reader may see them before the writer
// knows that they are there.
func (h *history) add(partition int32, keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.parts[partition]
	if c.offsets == nil {
		c.offsets = map[string][]int64{}
	}
	for _, k := range keys {
		c.offsets[k] = append(c.offsets[k], c.next)
		c.next++
	}
}

// at is the count of a key when everything before an offset was taken up; ok is false if there is no such position.
func (h *history) at(partition int32, key string, position int64) (count int64, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	c := &h.parts[partition]
	offsets := c.offsets[key]
	n := sort.Search(len(offsets), func(i int) bool { return offsets[i] >= position })
	return int64(n), position >= 0 && position <= c.next
}

// written is how often a key was written so far.
func (h *history) written(partition int32, key string) int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int64(len(h.parts[partition].offsets[key]))
}

// end is a partition's next offset.
func (h *history) end(partition int32) int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.parts[partition].next
}
