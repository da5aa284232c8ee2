package topology

import "github.com/millrace-io/millrace/record"

// timeline is the stream time of one windowed aggregation: the highest timestamp of the records that it has taken.
//
// It is not the task's, which other sources, and records that a filter has left out, move as well. It comes back after a
// restart from the store: a record that moves it is never late, so it writes a window with its own timestamp, in the same
// commit. So lateness is decided as if there had been no restart.
type timeline struct {
	host Host
	node string
	span span
	jump int64
	// now is -1 before the first record.
	now int64
	StreamTimeStatus
}

// StreamTimeStatus is what a windowed aggregation of one task knows about its stream time.
type StreamTimeStatus struct {
	// Node and Store name the aggregation.
	Node, Store string
	// StreamTime is in milliseconds since the Unix epoch; -1 before the first record.
	StreamTime int64
	// MovedBy and Offset are the record that moved stream time last: the one to look at when honest records are late.
	// MovedBy.Topic is empty if nothing has moved it since the task's start.
	MovedBy record.TopicPartition
	Offset  int64
	// Late counts records that were dropped because all their windows were closed, PartlyLate those that some of their
	// windows took and others not, Ahead those that MaxTimestampJump refused; since the task's start.
	Late, PartlyLate, Ahead uint64
}

// with is stream time once a record is taken.
func (t *timeline) with(timestamp int64) (int64, error) {
	if timestamp <= t.now {
		return t.now, nil
	}
	if t.jump > 0 && t.now >= 0 && timestamp-t.now > t.jump {
		t.Ahead++
		return t.now, wrap(t.node, &TimestampJumpError{Timestamp: timestamp, StreamTime: t.now, Max: t.jump})
	}
	return timestamp, nil
}

// moved says that a record is taken.
func (t *timeline) moved(now int64) {
	if now == t.now {
		return
	}
	t.now = now
	if source, offset, ok := t.host.Current(); ok {
		t.MovedBy, t.Offset = source, offset
	}
}

// count counts what a record met.
func (t *timeline) count(taken, late int) {
	switch {
	case late == 0:
	case taken == 0:
		t.Late++
		t.host.Dropped("late record")
	default:
		t.PartlyLate++
		t.host.Dropped("late for a window")
	}
}

// StreamTimes is the status of every windowed aggregation, in the order of the nodes.
func (in *Instance) StreamTimes() (all []StreamTimeStatus) {
	for _, t := range in.timelines {
		s := t.StreamTimeStatus
		s.StreamTime = t.now
		all = append(all, s)
	}
	return all
}

// timeline makes the stream time of a node.
func (in *Instance) timeline(n *node, store string, s span, e emission) *timeline {
	t := &timeline{host: in.host, node: n.name, span: s, jump: e.jump.Milliseconds(), now: -1, StreamTimeStatus: StreamTimeStatus{Node: n.name, Store: store}}
	in.timelines = append(in.timelines, t)
	return t
}
