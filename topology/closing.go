package topology

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/record"
)

// closing is the open windows of a task by their end, for OnWindowClose: a heap.
//
// The easy version scans the store for what has closed. The store's order is by key, so that is the whole store at every
// commit in which a window closes, which with sessions is every commit. The index is not written anywhere: which windows
// are open follows from the store and its stream time, so a restart makes it again.
//
// A session that grows does not enter a second time. Its old entry finds it: when that end has closed, the session that
// now covers it is looked up and enters instead. So a session has as many entries as it had beginnings, not as records.
type closing struct {
	heap []open
	// last is what was taken last: entries of sessions that were merged find the same one, next to each other.
	last open
}

type open struct {
	end int64
	key string
}

// before orders by end, and then backwards by key: of sessions of a key with one end the one that began last comes first,
// so that all entries which lead to the session that covers them come before it.
func before(a, b open) bool {
	return cmp.Or(cmp.Compare(a.end, b.end), -strings.Compare(a.key, b.key)) < 0
}

func (c *closing) add(end int64, key string) {
	c.heap = append(c.heap, open{end, key})
	for i := len(c.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !before(c.heap[i], c.heap[up]) {
			return
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
}

// take removes the first window if it is closed.
func (c *closing) take(s *span, now int64) (first open, ok bool) {
	for len(c.heap) > 0 && s.closed(c.heap[0].end, now) {
		if first = c.pop(); first != c.last {
			c.last = first
			return first, true
		}
	}
	return open{}, false
}

func (c *closing) pop() open {
	first, n := c.heap[0], len(c.heap)-1
	c.heap[0], c.heap[n] = c.heap[n], open{}
	c.heap = c.heap[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			return first
		}
		if down+1 < n && before(c.heap[down+1], c.heap[down]) {
			down++
		}
		if !before(c.heap[down], c.heap[i]) {
			return first
		}
		c.heap[i], c.heap[down] = c.heap[down], c.heap[i]
		i = down
	}
}

// emitted is up to which stream time closed windows were forwarded by a commit: the store's, which was committed together
// with them. If the stores are ahead of the offsets it is that of the offsets: what was forwarded since is forwarded again.
func (t *timeline) emitted() int64 {
	if t.host.Ahead() {
		return min(t.now, t.host.StreamTime())
	}
	return t.now
}

// fill finds the windows of a store that are open. split gives the end of a cell's window.
func (c *closing) fill(t *timeline, state StateStore, split func(key []byte) (end int64, ok bool)) error {
	c.heap, c.last = nil, open{}
	emitted := t.emitted()
	for cell, err := range state.Range(nil, nil, false) {
		if err != nil {
			return err
		}
		end, ok := split(bytesOf(cell.Key))
		if !ok {
			return fmt.Errorf("%x is not a key of windows", cell.Key)
		}
		if !t.span.closed(end, emitted) {
			c.add(end, strings.Clone(cell.Key))
		}
	}
	return nil
}

func windowEnd(size int64) func([]byte) (int64, bool) {
	return func(b []byte) (int64, bool) {
		_, start, _, ok := record.SplitWindowKey(b)
		return start + size, ok
	}
}

func sessionEnd(b []byte) (int64, bool) {
	_, _, end, ok := record.SplitSessionKey(b)
	return end, ok
}
