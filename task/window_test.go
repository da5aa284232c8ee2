package task_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// windowTask is a windowed aggregation in a real task: what it forwards is what its output topic has got.
type windowTask struct {
	t         *testing.T
	task      *task.Task
	state     *tasktest.State
	out       *tasktest.Producer
	at        broker.Offsets
	next      map[int32]int64
	dropped   map[string]int
	changelog record.TopicPartition
}

type finals = topology.Stream[topology.Windowed[string], int64]

var sessionResults = topology.NewTopic("out", codec.SessionWindowed(codec.String), codec.Int64)

func newWindowTask(t *testing.T, store string, partitions int32, wire func(topology.Stream[string, string]) finals, handling func(*topology.Builder)) *windowTask {
	w := &windowTask{t: t, state: tasktest.NewState(1), dropped: map[string]int{}, at: broker.Offsets{}, next: map[int32]int64{},
		out: tasktest.NewProducer(map[string]int32{"out": 1, "dead": 1}), changelog: tp(store+"-changelog", 0)}
	b := topology.NewBuilder()
	// Results of every shape are written as sessions, whose bytes have both ends.
	topology.To(wire(topology.From(b, topology.NewTopic("in", codec.String, codec.String))), sessionResults)
	if handling != nil {
		handling(b)
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cfg := task.Config{
		Stores: []task.StoreConfig{{Name: store, Changelog: w.changelog}}, State: w.state, Producer: w.out, MaxIdle: -1,
		Chain: func(h topology.Host) (task.Chain, error) {
			return top.SubTopologies[0].Instantiate(h)
		},
		Dropped: func(reason string) { w.dropped[reason]++ },
	}
	for p := range partitions {
		cfg.Sources = append(cfg.Sources, tp("in", p))
		w.at[tp("in", p)] = broker.Offset{}
	}
	if w.task, err = task.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.task.Restoring()
	w.restart(w.at)
	return w
}

func (w *windowTask) restart(at broker.Offsets) {
	w.t.Helper()
	w.at = at
	for source, o := range at {
		w.next[source.Partition] = o.At
	}
	if err := w.task.Start(now, at); err != nil {
		w.t.Fatal(err)
	}
}

// feed gives records of one key to a partition.
func (w *windowTask) feed(p int32, key string, at ...int64) error {
	var records []record.Raw
	from := w.next[p]
	for i, ts := range at {
		records = append(records, record.Raw{Key: []byte(key), Value: []byte("v"), Timestamp: ts, Offset: from + int64(i)})
	}
	w.next[p] = from + int64(len(at))
	if !w.task.Add(broker.Batch{Source: tp("in", p), Records: records, From: from, Next: w.next[p], HighWatermark: w.next[p]}) {
		w.t.Fatal("refused")
	}
	_, err := w.task.Process(now, 1_000)
	return err
}

func (w *windowTask) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// commit gives what was forwarded. With fail the offsets are not committed although the changelog records are out, as at
// least once a crash can have it: the state gets them by replay.
func (w *windowTask) commit(fail bool) (forwarded []string) {
	w.t.Helper()
	before := len(w.out.Log[tp("out", 0)])
	u, err := w.task.Prepare(now)
	w.must(err)
	for _, r := range w.out.Log[tp("out", 0)][before:] {
		key, start, end, _ := record.SplitSessionKey(r.Key)
		n := int64(-1)
		if r.Value != nil {
			n, _ = codec.Int64.Decode(r.Value)
		}
		forwarded = append(forwarded, fmt.Sprintf("%s[%d,%d]=%d", key, start, end, n))
	}
	if !fail {
		w.task.Committed(u)
	}
	w.state.Apply(u)
	if !fail {
		w.task.Applied(u)
	}
	return forwarded
}

func (w *windowTask) want(what string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// H10 in a task, with the restart between the update and the close, in both guarantees, and at each of the points at which a
// restart may come.
func TestH10FinalSessionsSurviveRestarts(t *testing.T) {
	sessions := topology.NewSessionStore("s", codec.String, codec.Int64, time.Hour)
	w := newWindowTask(t, "s", 1, func(s topology.Stream[string, string]) finals {
		return topology.CountSessions(s, topology.SessionWindows(10*time.Millisecond).WithGrace(5*time.Millisecond), sessions, topology.OnWindowClose())
	}, nil)
	w.must(w.feed(0, "k", 0, 10))
	w.must(w.feed(0, "other", 25))
	w.want("at 25", w.commit(false))
	w.restart(w.task.Rewind())
	w.must(w.feed(0, "k", 3))
	w.want("still at 25", w.commit(false))
	w.restart(w.task.Rewind())
	w.must(w.feed(0, "other", 26))
	w.restart(w.task.Rewind()) // the commit was aborted before anything went out
	w.must(w.feed(0, "other", 26))
	w.want("a commit that fails", w.commit(true), "k[0,10]=3")
	w.restart(w.task.Rewind()) // at least once: the changelog has what the offsets have not
	w.must(w.feed(0, "other", 26))
	w.want("the next", w.commit(false), "k[0,10]=3")
	w.restart(w.task.Rewind())
	w.must(w.feed(0, "k", 3))
	w.want("once committed, not again", w.commit(false))
	if w.dropped["late record"] != 1 {
		t.Error(w.dropped)
	}
	// The session that grew from [0,0] to [0,10] in one commit has left no tombstone behind.
	for _, r := range w.out.Log[w.changelog] {
		if r.Value == nil && string(r.Key[:1]) == "k" {
			t.Errorf("tombstone for %x", r.Key)
		}
	}
}

// H10, second half, in a task: both old sessions are deleted downstream and in the changelog.
func TestH10MergedSessionsAreDeletedInTheChangelog(t *testing.T) {
	sessions := topology.NewSessionStore("s", codec.String, codec.Int64, time.Hour)
	w := newWindowTask(t, "s", 1, func(s topology.Stream[string, string]) finals {
		return topology.CountSessions(s, topology.SessionWindows(10*time.Millisecond).WithGrace(20*time.Millisecond), sessions)
	}, nil)
	w.must(w.feed(0, "k", 0, 20))
	w.commit(false)
	w.must(w.feed(0, "k", 10))
	got := w.commit(false)
	slices.Sort(got)
	w.want("merged", got, "k[0,0]=-1", "k[0,20]=3", "k[20,20]=-1")
	left := w.out.Compacted(w.changelog)
	if len(left) != 1 || left[string(record.AppendSessionSuffix([]byte("k"), 0, 20))].Value == nil {
		t.Errorf("%d keys in the changelog", len(left))
	}
}

// H11 in a task: the record goes to the dead-letter topic and the honest ones behind it are counted; without the bound the
// drops are counted and the record that moved stream time is shown. It does so for the task that it is in.
func TestH11FastClockGoesToTheDeadLetterTopic(t *testing.T) {
	day := 24 * time.Hour.Milliseconds()
	store := topology.NewWindowStore("w", codec.String, codec.Int64, time.Minute, 48*time.Hour)
	wire := func(opts ...topology.AggregateOption) func(topology.Stream[string, string]) finals {
		return func(s topology.Stream[string, string]) finals {
			return topology.CountWindows(s, topology.TumblingWindows(time.Minute), store, opts...)
		}
	}
	honest := []int64{61_000, 62_000, 63_000, 64_000, 65_000, 66_000, 67_000, 68_000, 69_000, 70_000}
	w := newWindowTask(t, "w", 1, wire(topology.MaxTimestampJump(time.Hour)), func(b *topology.Builder) {
		b.Always(topology.Processing, topology.DeadLetter)
		b.DeadLetterTopic("dead")
	})
	w.must(w.feed(0, "k", 0, 30_000, 60_000, day))
	w.must(w.feed(0, "k", honest...))
	got := w.commit(false)
	slices.Sort(got)
	w.want("bounded", got, "k[0,60000]=2", "k[60000,120000]=11")
	dead := w.out.Log[tp("dead", 0)]
	if len(dead) != 1 || len(w.dropped) != 0 {
		t.Fatalf("%d dead letters, dropped %v", len(dead), w.dropped)
	}
	if at, _ := dead[0].Headers.Last(topology.HeaderTimestamp); string(at) != fmt.Sprint(day) {
		t.Errorf("the dead letter's timestamp is %s", at)
	}

	failing := newWindowTask(t, "w", 1, wire(topology.MaxTimestampJump(time.Hour)), nil)
	var jump *topology.TimestampJumpError
	if err := failing.feed(0, "k", 0, day); !errors.As(err, &jump) {
		t.Errorf("without a handler the task fails: %v", err)
	}

	w = newWindowTask(t, "w", 1, wire(), nil)
	w.must(w.feed(0, "k", 0, 30_000, 60_000, day))
	w.must(w.feed(0, "k", honest...))
	s := w.task.StreamTimes()[0]
	if w.dropped["late record"] != 10 || s.Late != 10 || s.MovedBy != tp("in", 0) || s.Offset != 3 || s.StreamTime != day {
		t.Errorf("dropped %v, %+v", w.dropped, s)
	}
}

// Out of order across the partitions of a task: they share one stream time, and the order in which their records come is
// what decides about lateness, also behind a restart.
func TestWindowsOverSeveralPartitions(t *testing.T) {
	store := topology.NewWindowStore("w", codec.String, codec.Int64, 10*time.Millisecond, time.Hour)
	w := newWindowTask(t, "w", 2, func(s topology.Stream[string, string]) finals {
		return topology.CountWindows(s, topology.TumblingWindows(10*time.Millisecond).WithGrace(5*time.Millisecond), store, topology.OnWindowClose())
	}, nil)
	w.must(w.feed(0, "a", 3, 14))
	w.must(w.feed(1, "b", 4)) // 14 is before 10 + 5
	w.want("open", w.commit(false))
	w.restart(w.task.Rewind())
	w.must(w.feed(1, "a", 9))
	w.must(w.feed(1, "b", 15))
	w.must(w.feed(0, "a", 9)) // one too late, by the other partition's record
	w.want("closed", w.commit(false), "b[0,10]=1", "a[0,10]=2")
	if w.dropped["late record"] != 1 {
		t.Error(w.dropped)
	}
}
