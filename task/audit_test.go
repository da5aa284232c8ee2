package task

import "fmt"

// Audit is the whole truth about a task's memory: every sum and every list against the cells themselves. External tests
// call it after each step.
func Audit(t *Task) error {
	var clean, active, filters int64
	queued := map[*cell]bool{}
	for _, c := range t.mem.queue[t.mem.first:] {
		if queued[c] {
			return fmt.Errorf("cell %q is queued twice", c.Key)
		}
		queued[c] = true
	}
	for _, o := range t.overlays {
		c, a, err := o.audit(queued)
		if err != nil {
			return fmt.Errorf("store %s: %w", o.name, err)
		}
		clean, active, filters = clean+c, active+a, filters+o.evicted.bytes
	}
	if filters != t.mem.filters || filters > t.mem.limit/evictedShare {
		return fmt.Errorf("filters of %d bytes, summed up %d, with a limit of %d", t.mem.filters, filters, t.mem.limit)
	}
	if err := t.mem.cold.audit(t); err != nil {
		return err
	}
	if clean != t.mem.clean || active != t.mem.active {
		return fmt.Errorf("clean %d, summed up %d; active %d, summed up %d", t.mem.clean, clean, t.mem.active, active)
	}
	return nil
}

// Remembered is what the task knows of keys whose cells were evicted, in bytes, Cold what it has of their values, and Clean
// what its clean cells hold.
func Remembered(t *Task) int64 { return t.mem.filters }
func Cold(t *Task) int64       { return t.mem.cold.bytes() }
func Clean(t *Task) int64      { return t.mem.clean }

// audit finds a value that is not what the state has, of a key that has no cell.
func (c *cold) audit(t *Task) error {
	if c.bytes() > max(0, c.limit) {
		return fmt.Errorf("cold values of %d bytes, with a limit of %d", c.bytes(), c.limit)
	}
	for h, place := range c.index {
		e := c.at(place)
		if c.of(hashed(e.key()), e.store()) != h {
			return fmt.Errorf("key %q of store %d is cold under another's hash", e.key(), e.store())
		}
		if t.overlays[e.store()].cells[string(e.key())] != nil {
			continue // what it has counts
		}
		value, timestamp, ok, err := t.mem.state.Get(e.store(), e.key())
		if err == nil && (!ok || timestamp != e.timestamp() || string(value) != string(e.value())) {
			return fmt.Errorf("key %q of store %d is cold with %x at %d, and the state has %x at %d, %v", e.key(), e.store(), e.value(), e.timestamp(), value, timestamp, ok)
		}
	}
	return nil
}

// audit gives what the store's clean cells cost and what its dirty ones add to the next commit.
func (o *overlay) audit(queued map[*cell]bool) (clean, active int64, err error) {
	dirty, frozen, changed := setOf(o.dirty), setOf(o.frozen), setOf(o.changed)
	if len(dirty) != len(o.dirty) || len(frozen) != len(o.frozen) || len(changed) != len(o.changed) {
		return 0, 0, fmt.Errorf("a cell is in a list twice")
	}
	pinned := 0
	for key, c := range o.cells {
		has := func(mark uint64) bool { return c.Mark&mark != 0 }
		switch {
		case c.Key != key || c.of != o || !has(markHeld) || o.mem.slots[c.Mark>>markShift] != c:
			return 0, 0, fmt.Errorf("cell %q under %q is not held", c.Key, key)
		case has(markDirty) != dirty[c] || has(markFrozen) != frozen[c] || has(markChanged) != changed[c] || has(markQueued) != queued[c]:
			return 0, 0, fmt.Errorf("cell %q has marks %b and is not in those lists", key, c.Mark&(1<<markShift-1))
		case !has(markPinned) && !has(markQueued) && !has(markChanged):
			return 0, 0, fmt.Errorf("clean cell %q can never be evicted", key)
		}
		if has(markDirty) {
			active += cellBytes + int64(len(c.Key)+len(c.Value))
		}
		if has(markPinned) {
			pinned++
		} else {
			clean += c.cost()
		}
		delete(dirty, c)
		delete(frozen, c)
		delete(changed, c)
	}
	if len(dirty)+len(frozen)+len(changed) > 0 {
		return 0, 0, fmt.Errorf("a list has a cell that the map has not")
	}
	if o.pinned != nil {
		for _, b := range o.pinned.blocks {
			pinned -= len(b)
		}
		if pinned != 0 {
			return 0, 0, fmt.Errorf("the order lacks %d cells", pinned)
		}
	}
	return clean, active, nil
}

func setOf(cells []*cell) map[*cell]bool {
	set := map[*cell]bool{}
	for _, c := range cells {
		set[c] = true
	}
	return set
}

// StreamTime is what processors see as Host.StreamTime.
func StreamTime(t *Task) int64 { return t.streamTime }
