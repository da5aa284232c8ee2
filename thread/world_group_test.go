package thread_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// phase is where a member of the group stands, as in kafka/member.
type phase uint8

const (
	joining phase = iota
	stable
	revoking
)

// member is a node in the group: what the coordinator knows (in, joined, assigned) and what kafka/member knows.
type member struct {
	// in says that the coordinator has it; joined that it waits for the next generation. down is a process that is gone.
	in, joined, down bool
	id               string
	gen              int32
	phase            phase
	again            bool
	owned, revoked   []record.TopicPartition
	assigned         []record.TopicPartition
	commits          []commitRequest
	reads            []read
	// told is the list of live members that the loop has heard of.
	told []string
}

type commitRequest struct {
	token   uint64
	offsets broker.Offsets
}

// read is a request for committed offsets; answer is what the coordinator said, before it has arrived.
type read struct {
	token  uint64
	tps    []record.TopicPartition
	stable bool
	answer broker.Offsets
}

func groupError(op broker.Op, code int16, class broker.Class) *broker.Error {
	return &broker.Error{Op: op, Code: code, Class: class}
}

// enter is the first join of a process. A static member that is still in the group gets its assignment back at once.
func (n *node) enter() {
	m := &n.member
	was := m.phase
	back := m.in && !m.joined && !n.w.rebalancing
	n.w.members++
	m.id, m.gen, m.owned, m.revoked, m.commits, m.reads, m.down = fmt.Sprintf("%s%d", n.name, n.w.members), -1, nil, nil, nil, nil, false
	if !back {
		n.join()
		return
	}
	m.gen, m.owned, m.phase = n.w.gen, slices.Clone(m.assigned), stable
	n.tell(false)
	if was == revoking {
		n.rejoin("came back")
	}
}

func (n *node) tell(more bool) {
	data := strings.Join(n.w.live, ",")
	if more {
		data = "more," + data
	}
	n.put(broker.Assigned{Generation: n.gen, MemberID: n.member.id, Partitions: slices.Clone(n.assigned), UserData: []byte(data)})
}

// join sends a JoinGroup; a member that the coordinator has forgotten is told so.
func (n *node) join() {
	m := &n.member
	m.phase, m.again = joining, false
	if m.gen >= 0 && !m.in {
		n.lost()
		return
	}
	m.in, m.joined = true, true
	n.w.rebalancing = true
}

func (n *node) lost() {
	m := &n.member
	err := groupError(broker.OpHeartbeat, 25, broker.Migrated)
	for _, c := range m.commits {
		n.put(broker.OffsetsCommitted{Token: c.token, Err: err})
	}
	was := m.owned
	n.w.members++
	m.id, m.gen, m.owned, m.revoked, m.commits = fmt.Sprintf("%s%d", n.name, n.w.members), -1, nil, nil, nil
	n.put(broker.Lost{Partitions: was, Cause: err})
	n.join()
}

// leave takes the member out, by itself or because its session has run out.
func (m *member) leave() { m.in, m.joined = false, false }

// rejoin is Machine.Rejoin.
func (n *node) rejoin(reason string) {
	switch n.phase {
	case stable:
		n.put(broker.Rejoining{Reason: reason})
		n.join()
	case joining:
		n.again = true
	}
}

// heartbeat tells a member what it does not know yet: that it was thrown out (a pending join says so too), or that the
// group rebalances.
func (n *node) heartbeat() {
	switch {
	case n.down || n.loop == nil && n.stopping:
	case !n.in && n.gen >= 0:
		n.lost()
	case !n.in:
		n.join()
	case n.phase == joining:
	case n.w.rebalancing:
		n.rejoin("the group is rebalancing")
	}
}

// complete ends a rebalance when every member has joined.
func (w *world) complete() {
	var all []*node
	for _, n := range w.nodes {
		if n.in && !n.joined {
			return
		}
		if n.in {
			all = append(all, n)
		}
	}
	if !w.rebalancing || len(all) == 0 {
		return
	}
	w.gen++
	w.say("generation %d", w.gen)
	w.rebalancing, w.live = false, nil
	more := map[*node]bool{}
	for _, n := range all {
		w.live = append(w.live, n.id())
		n.assigned, n.revoked, n.joined, n.gen = nil, nil, false, w.gen
	}
	for p := range int32(partitions) {
		w.assign(all, p, more)
	}
	for _, n := range all {
		n.owned = slices.Concat(n.assigned, n.revoked)
		n.phase = stable
		n.tell(more[n])
		if len(n.revoked) > 0 {
			n.phase = revoking
			n.put(broker.Revoking{Generation: w.gen, Partitions: slices.Clone(n.revoked)})
		}
		if n.again {
			n.rejoin("asked for during the last rebalance")
		}
	}
}

// assign gives a partition to a member: at once if nobody has it, else its owner has to give it up first.
func (w *world) assign(all []*node, p int32, more map[*node]bool) {
	var owner *node
	for _, n := range all {
		if slices.Contains(n.owned, in(p)) {
			owner = n
		}
	}
	to := owner
	if owner == nil || w.chance("move", 3) {
		to = all[int(p)%len(all)]
		if !w.calm {
			to = all[rapid.IntRange(0, len(all)-1).Draw(w.t, "owner")]
		}
	}
	if owner == nil || owner == to {
		to.assigned = append(to.assigned, in(p))
		return
	}
	owner.revoked = append(owner.revoked, in(p))
	more[to] = true
}

// answerReads carries reads of committed offsets on: first the coordinator answers, then the answer arrives.
func (n *node) answerReads() {
	for i := 0; i < len(n.reads); i++ {
		n.answerRead(i)
	}
}

func (n *node) answerRead(i int) {
	r := &n.reads[i]
	if r.answer == nil {
		for _, tp := range r.tps {
			if r.stable && n.w.isOpen(tp.Partition, true) {
				return
			}
		}
		r.answer = broker.Offsets{}
		for _, tp := range r.tps {
			r.answer[tp] = n.w.committed[tp]
		}
		if n.w.chance("on the wire", 3) {
			return
		}
	}
	n.put(broker.OffsetsFetched{Token: r.token, Offsets: r.answer})
	n.reads = slices.Delete(n.reads, i, i+1)
}

// answerCommit is the at-least-once commit.
func (n *node) answerCommit() {
	if len(n.commits) == 0 {
		return
	}
	if !n.in {
		n.lost()
		return
	}
	c := n.commits[0]
	n.commits = n.commits[1:]
	for tp := range c.offsets {
		if !slices.Contains(n.owned, tp) {
			n.put(broker.OffsetsCommitted{Token: c.token, Err: groupError(broker.OpOffsetCommit, 22, broker.Abort)})
			return
		}
	}
	if n.w.chance("a commit fails", 5) {
		n.put(broker.OffsetsCommitted{Token: c.token, Err: groupError(broker.OpOffsetCommit, 7, broker.Abort)})
		return
	}
	n.commitOffsets(c.offsets)
	n.put(broker.OffsetsCommitted{Token: c.token})
}

// commitOffsets moves the group's positions. Exactly once they never go back, and at least once only to what a member
// that was thrown out has not committed.
func (n *node) commitOffsets(offsets broker.Offsets) {
	for tp, o := range offsets {
		if n.w.exactlyOnce && o.At < n.w.committed[tp].At {
			n.w.fatal("%s commits %s at %d, which is behind %d", n.name, tp, o.At, n.w.committed[tp].At)
		}
		n.w.committed[tp] = o
	}
}
