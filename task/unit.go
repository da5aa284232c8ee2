package task

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Write is one key of a Unit; Store is an index in Config.Stores.
type Write = record.Write

// Unit is what one commit moves together: the writes of an interval, and the positions that they bring the task to. It
// is not changed once Prepare has returned it, and shares no memory with what the task goes on doing, so it may be
// applied on another goroutine. With Applied its memory is the task's again.
type Unit struct {
	Task record.TaskID
	// Writes are sorted by store and key, each key once.
	Writes []Write
	// Offsets are the positions of all source partitions of the task, unchanged ones too.
	Offsets broker.Offsets
	// Changelogs are the stores that wrote changelog records, by their index in Config.Stores.
	Changelogs []int
	// Position is the next offset of each source partition.
	Position record.Position
	// WallClock is when the unit was prepared, in milliseconds since the Unix epoch.
	WallClock int64
	// Spans are of the batches of the interval, the first 128 at most; none without a Tracer.
	Spans []Span
	// arena holds every key and value.
	arena []byte
}

// grow makes room for cells, so that no later copy moves the earlier ones.
func (u *Unit) grow(overlays []*overlay) {
	cells, bytes := 0, 0
	for _, o := range overlays {
		cells += len(o.dirty)
		for _, c := range o.dirty {
			bytes += len(c.Key) + len(c.Value)
		}
	}
	if cells > cap(u.Writes) {
		u.Writes = make([]Write, 0, cells+cells/8)
	}
	if bytes > cap(u.arena) {
		u.arena = make([]byte, 0, bytes+bytes/8)
	}
}

// add copies a cell.
func (u *Unit) add(store int, c *cell) {
	at := len(u.arena)
	u.arena = append(u.arena, c.Key...)
	mid := len(u.arena)
	u.arena = append(u.arena, c.Value...)
	end := len(u.arena)
	w := Write{Store: store, Key: empty, Timestamp: c.Timestamp}
	if at < mid { // an arena that is not there yet would make an empty key null
		w.Key = u.arena[at:mid:mid]
	}
	switch {
	case mid < end:
		w.Value = u.arena[mid:end:end]
	case c.Present:
		w.Value = empty
	}
	u.Writes = append(u.Writes, w)
}

// empty is the key or value of length zero, which is not the absent one.
var empty = []byte{}

// recycle gives the memory of a unit that is done to the next one.
func (u *Unit) recycle() *Unit {
	clear(u.Writes)
	next := &Unit{Writes: u.Writes[:0], arena: u.arena[:0]}
	u.Writes, u.arena = nil, nil
	return next
}
