package member_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
)

// codes are what a coordinator may answer to anything, and one that it never does.
var codes = []int16{0, 0, 0, 0, 7, 14, 15, 16, 22, 25, 27, 69, 79, 82, 30, member.Transport, 99}

// losses are the answers by which a group throws a member out. Silence is not among them.
var losses = []int16{22, 25, 69, 82}

var pauses = []time.Duration{0, time.Millisecond, time.Second, 4 * time.Second, 11 * time.Second}

// world answers a machine's effects at random and keeps the books that the package promises.
type world struct {
	t                   *rapid.T
	s                   *story
	joins               []member.Join
	syncs               []member.Sync
	beats               []member.Heartbeat
	commits             []member.Commit
	fetches             []member.Fetch
	committing, reading map[uint64]bool
	owned               []record.TopicPartition
	revoking            *broker.Revoking
	token               uint64
	gen                 int32
	failed              bool
}

func pick[T any](w *world, from *[]T) (v T, ok bool) {
	if len(*from) == 0 {
		return v, false
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(w.t, "which")
	v = (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return v, true
}

func (w *world) take(effects []member.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case member.Join:
			if !slices.Equal(e.Owned, w.owned) {
				w.t.Fatalf("joins with %v, owns %v", e.Owned, w.owned)
			}
			w.joins = append(w.joins, e)
		case member.Sync:
			w.syncs = append(w.syncs, e)
		case member.Heartbeat:
			w.beats = append(w.beats, e)
		case member.Commit:
			w.commits = append(w.commits, e)
		case member.Fetch:
			w.fetches = append(w.fetches, e)
		case member.Deliver:
			w.hear(e.Event)
		}
	}
}

func (w *world) hear(e broker.Event) {
	switch e := e.(type) {
	case broker.Assigned:
		for _, tp := range e.Added {
			if slices.Contains(w.owned, tp) {
				w.t.Fatal(tp, "is added and was owned")
			}
		}
		if lost := slices.DeleteFunc(slices.Clone(w.owned), func(tp record.TopicPartition) bool { return slices.Contains(e.Partitions, tp) }); len(lost) > 0 {
			w.owned = slices.Concat(e.Partitions, lost)
		} else {
			w.owned = slices.Clone(e.Partitions)
		}
		w.revoking = nil
	case broker.Revoking:
		w.revoking = &e
	case broker.Lost:
		if !slices.Equal(e.Partitions, w.owned) {
			w.t.Fatalf("lost %v, owned %v", e.Partitions, w.owned)
		}
		if !slices.Contains(losses, e.Cause.Code) {
			w.t.Fatal("lost by what is no loss:", e.Cause)
		}
		w.owned, w.revoking = nil, nil
	case broker.OffsetsCommitted:
		if !w.committing[e.Token] {
			w.t.Fatal("commit answered twice or never asked for:", e.Token)
		}
		delete(w.committing, e.Token)
	case broker.OffsetsFetched:
		if !w.reading[e.Token] {
			w.t.Fatal("offsets answered twice or never asked for:", e.Token)
		}
		delete(w.reading, e.Token)
	case broker.GroupFailed:
		if w.failed || e.Err.Class != broker.Fatal {
			w.t.Fatal("failed twice, or not as Fatal:", e.Err)
		}
		w.failed = true
	}
}

func (w *world) code() int16 { return rapid.SampledFrom(codes).Draw(w.t, "code") }

func (w *world) some() (tps []record.TopicPartition) {
	for p := range int32(4) {
		if rapid.Bool().Draw(w.t, "assigned") {
			tps = append(tps, record.TopicPartition{Topic: "t", Partition: p})
		}
	}
	return tps
}

// TestEveryCommitIsAnsweredOnce plays random answers, late ones and cut ones included: every token is answered exactly
// once, joins name exactly what is owned, only a loss loses, and no order of answers is an illegal move.
func TestEveryCommitIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, s: newStory(rapid.Bool().Draw(t, "static")), committing: map[uint64]bool{}, reading: map[uint64]bool{}}
		m := w.s.m
		w.take(m.Start(w.s.now))
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.s.now = w.s.now.Add(rapid.SampledFrom(pauses).Draw(t, "pause"))
			w.step(m)
		}
		w.take(m.Leave(w.s.now))
		if len(w.committing)+len(w.reading) > 0 {
			t.Fatal("never answered:", w.committing, w.reading)
		}
		w.step(m)
	})
}

func (w *world) step(m *member.Machine) {
	now := w.s.now
	switch rapid.IntRange(0, 10).Draw(w.t, "event") {
	case 0, 1:
		if j, ok := pick(w, &w.joins); ok {
			w.gen++
			w.take(m.Joined(now, member.JoinAnswer{Seq: j.Seq, Code: w.code(), Generation: w.gen, MemberID: "m", Leader: rapid.Bool().Draw(w.t, "leader")}))
		}
	case 2, 3:
		if s, ok := pick(w, &w.syncs); ok {
			w.take(m.Synced(now, member.SyncAnswer{Generation: s.Generation, Code: w.code(), Partitions: w.some(), Stale: rapid.Bool().Draw(w.t, "stale")}))
		}
	case 4:
		if b, ok := pick(w, &w.beats); ok {
			w.take(m.Beat(now, b.Generation, w.code()))
		}
	case 5, 6:
		if c, ok := pick(w, &w.commits); ok {
			w.take(m.Committed(now, c.Token, w.code()))
		}
	case 7:
		w.token++
		w.committing[w.token] = true
		o := broker.Offsets{}
		for _, tp := range w.some() {
			o[tp] = broker.Offset{At: 1}
		}
		w.take(m.Commit(now, w.token, o))
	case 8:
		w.take(m.Tick(now))
	case 9:
		w.token++
		w.reading[w.token] = true
		w.take(m.Offsets(now, w.token, nil, rapid.Bool().Draw(w.t, "stable")))
		if f, ok := pick(w, &w.fetches); ok {
			w.take(m.Fetched(now, f.Token, broker.Offsets{}, nil))
		}
	case 10:
		w.releaseOrRejoin(m)
	}
}

func (w *world) releaseOrRejoin(m *member.Machine) {
	if r := w.revoking; r != nil && m.Phase() == member.Revoking {
		w.owned = slices.DeleteFunc(slices.Clone(w.owned), func(tp record.TopicPartition) bool { return slices.Contains(r.Partitions, tp) })
		w.revoking = nil
		w.take(m.Released(w.s.now, r.Generation))
		return
	}
	w.take(m.Rejoin(w.s.now, "asked"))
}
