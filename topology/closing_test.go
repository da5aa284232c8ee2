package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
	"pgregory.net/rapid"
)

// H10: the end of a session is included, so it closes when stream time is after end + gap + grace, and not a tick before.
func TestH10SessionsCloseAfterGapAndGrace(t *testing.T) {
	sessions := SessionWindows(10 * ms).WithGrace(5 * ms)
	for name, restart := range map[string]bool{"": false, "restarted": true} {
		w := windowed(t, countingSessions(sessions, OnWindowClose()))
		w.feed("k", 0, 10)
		w.feed("other", 25) // 10 + 10 + 5
		w.want(name+" at 25", w.commit())
		if restart {
			w.start()
		}
		w.feed("k", 3) // still merges
		w.want(name+" still at 25", w.commit())
		w.wantDropped(map[string]int{})
		w.feed("other", 26)
		if restart {
			w.instance.Close()
		}
		w.want(name+" at 26", w.commit(), "k[0,10]=3")
		if restart {
			w.start()
		}
		w.feed("k", 3)
		w.wantDropped(map[string]int{"late record": 1})
		w.want(name+" once", w.commit())
		if s := w.instance.StreamTimes()[0]; s.StreamTime != 26 || s.Late != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// H10, second half: a record between two sessions makes one of them, and both old ones are deleted downstream and in the
// store. What nobody has seen is not deleted.
func TestH10MergedSessionsAreDeletedDownstream(t *testing.T) {
	sessions := SessionWindows(10 * ms).WithGrace(20 * ms)
	w := windowed(t, countingSessions(sessions))
	w.feed("k", 0, 20)
	w.want("two", w.commit(), "k[0,0]=1", "k[20,20]=1")
	w.feed("k", 10)
	w.want("merged", w.commit(), "k[0,0]=-1", "k[0,20]=3", "k[20,20]=-1")
	n := 0
	for _, c := range w.host.stores["s"].cells {
		if c.Present {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d sessions in the store", n)
	}
	w.feed("k", 21, 22, 23)
	w.want("grown", w.commit(), "k[0,20]=-1", "k[0,23]=6")
	every := windowed(t, countingSessions(sessions, EveryUpdate()))
	every.feed("k", 0, 20, 10)
	every.want("every update", every.forwarded(), "k[0,0]=1", "k[0,0]=-1", "k[0,20]=3", "k[20,20]=1", "k[20,20]=-1")
}

// A session that is final is not emitted again, whatever comes: a record within its gap that is not late begins another.
func TestAFinalSessionTakesNoMoreRecords(t *testing.T) {
	w := windowed(t, countingSessions(SessionWindows(10*ms).WithGrace(5*ms), OnWindowClose()))
	w.feed("k", 0, 10)
	w.feed("other", 26)
	w.feed("k", 12) // late by 14, and 2 behind the end of the session that has closed
	w.want("at 26", w.commit(), "k[0,10]=2")
	w.feed("other", 60)
	w.want("at 60", w.commit(), "k[12,12]=1", "other[26,26]=1")
	w.wantDropped(map[string]int{})
}

// A session that grows and merges while it is open is emitted once, as it is when it closes; what it was before, never.
func TestOpenSessionsAreFollowedToTheirEnds(t *testing.T) {
	w := windowed(t, countingSessions(SessionWindows(10*ms).WithGrace(40*ms), OnWindowClose()))
	w.feed("k", 0, 20, 40, 50) // [0,0] [20,20] [40,50]
	w.feed("k", 30)            // [20,50]
	w.feed("k", 10)            // [0,50]
	w.want("open", w.commit())
	w.feed("other", 71) // the old ends 0 and 20 have closed, the session has not
	w.want("at 71", w.commit())
	w.feed("other", 101)
	w.want("at 101", w.commit(), "k[0,50]=6")
	w.feed("other", 300)
	w.want("once", w.commit(), "other[71,71]=1", "other[101,101]=1")
}

// H11: one clock is a day ahead.
func TestH11OneFastClockMakesHonestRecordsLate(t *testing.T) {
	day := 24 * time.Hour.Milliseconds()
	minute := NewWindowStore("w", codec.String, codec.Int64, time.Minute, 48*time.Hour)
	wire := func(opts ...AggregateOption) func(Stream[string, string]) Stream[Windowed[string], int64] {
		return func(s Stream[string, string]) Stream[Windowed[string], int64] {
			return CountWindows(s, TumblingWindows(time.Minute), minute, opts...)
		}
	}
	honest := []int64{61_000, 62_000, 63_000, 64_000, 65_000, 66_000, 67_000, 68_000, 69_000, 70_000}

	w := windowed(t, wire(MaxTimestampJump(time.Hour)))
	w.feed("k", 0, 30_000, 60_000)
	err := w.feedRaw(&record.Raw{Key: []byte("k"), Value: []byte("v"), Timestamp: day})
	var jump *TimestampJumpError
	var p *ProcessorError
	if !errors.As(err, &jump) || !errors.As(err, &p) || *jump != (TimestampJumpError{Timestamp: day, StreamTime: 60_000, Max: 3_600_000}) {
		t.Fatalf("a record that is a day ahead: %v", err)
	}
	w.feed("k", honest...)
	w.want("bounded", w.commit(), "k[0,60000]=2", "k[60000,120000]=11")
	w.wantDropped(map[string]int{})
	w.feed("k", 70_000+time.Hour.Milliseconds()) // exactly the bound
	if s := w.instance.StreamTimes()[0]; s.Ahead != 1 || s.Late != 0 || s.StreamTime != 70_000+time.Hour.Milliseconds() {
		t.Errorf("%+v", s)
	}
	w.start() // the bound holds behind a restart
	if err := w.feedRaw(&record.Raw{Key: []byte("k"), Value: []byte("v"), Timestamp: day}); !errors.As(err, &jump) {
		t.Errorf("after a restart: %v", err)
	}

	w = windowed(t, wire())
	w.feed("k", 0, 30_000, 60_000, day)
	w.feed("k", honest...)
	w.wantDropped(map[string]int{"late record": 10})
	s := w.instance.StreamTimes()[0]
	if s.StreamTime != day || s.Late != 10 || s.MovedBy.String() != "in-2" || s.Offset != 7 {
		t.Errorf("the record that moved stream time is not shown: %+v", s)
	}
	other := windowed(t, wire()) // another task
	other.feed("k", honest...)
	other.wantDropped(map[string]int{})
}

// Final results, for every shape and grace: each window once, with everything that it took, at the first commit after it
// has closed, whatever commits and restarts come in between. Windows in which nothing is are never emitted, and what is
// late changes nothing.
func TestFinalResultsComeOnceWhenTheWindowHasClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grace := rapid.SampledFrom([]int64{0, 1, 7, 30}).Draw(t, "grace")
		g := time.Duration(grace) * ms
		shape := rapid.SampledFrom([]string{"tumbling", "hopping", "sliding", "session"}).Draw(t, "shape")
		delay, wire := grace, counting(TumblingWindows(size*ms).WithGrace(g), OnWindowClose())
		update := counting(TumblingWindows(size*ms).WithGrace(g), EveryUpdate())
		switch shape {
		case "hopping":
			wire, update = counting(HoppingWindows(size*ms, 4*ms).WithGrace(g), OnWindowClose()), counting(HoppingWindows(size*ms, 4*ms).WithGrace(g), EveryUpdate())
		case "sliding":
			delay++
			wire, update = counting(SlidingWindows(size*ms).WithGrace(g), OnWindowClose()), counting(SlidingWindows(size*ms).WithGrace(g), EveryUpdate())
		case "session":
			delay += 4 + 1
			wire = countingSessions(SessionWindows(4*ms).WithGrace(g), OnWindowClose())
		}
		final := windowed(t, wire)
		var model interface {
			add(key string, at int64)
			windows() map[result]int64
		} = &updates{w: windowed(t, update)}
		if shape == "session" {
			model = &sessionModel{gap: 4, grace: grace}
		}
		now, emitted := int64(-1), map[result]bool{}
		commit := func() {
			final.commit0()
			closed := map[result]int64{}
			for _, r := range final.got {
				at := result{r.Key, r.Start, r.End, 0}
				if emitted[at] {
					t.Fatalf("%v a second time", r)
				}
				emitted[at], closed[at] = true, r.Value
			}
			final.got = nil
			all := model.windows()
			for at := range closed {
				if _, ok := all[at]; !ok {
					t.Fatalf("at %d, %v is emitted and is no window", now, at)
				}
			}
			for at, n := range all {
				if got, now_ := closed[at], now >= at.End+delay; now_ && !emitted[at] || got != 0 && (got != n || !now_) {
					t.Fatalf("at %d, %v has %d, emitted %d, before %v", now, at, n, got, emitted[at])
				}
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			at := max(0, now+rapid.Int64Range(-40, 15).Draw(t, "step"))
			now = max(now, at)
			final.feed(key, at)
			model.add(key, at)
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0:
				commit()
			case 1:
				commit()
				final.start()
			}
		}
		now += 1_000
		final.feed("end", now)
		model.add("end", now)
		commit()
	})
}

// updates is what windows hold by the aggregation that forwards every update.
type updates struct{ w *windows }

func (u *updates) add(key string, at int64) { u.w.feed(key, at) }

func (u *updates) windows() map[result]int64 {
	all := map[result]int64{}
	for _, r := range u.w.got {
		all[result{r.Key, r.Start, r.End, 0}] = r.Value
	}
	return all
}

// sessionModel is sessions in a list, of which the closed ones are final.
type sessionModel struct {
	gap, grace, now int64
	sessions        []result
}

func (m *sessionModel) windows() map[result]int64 {
	all := map[result]int64{}
	for _, s := range m.sessions {
		all[result{s.Key, s.Start, s.End, 0}] = s.Value
	}
	return all
}

func (m *sessionModel) add(key string, at int64) {
	m.now = max(m.now, at)
	closed := func(end int64) bool { return end+m.gap+m.grace < m.now }
	merged := result{key, at, at, 1}
	var rest []result
	for _, s := range m.sessions {
		if s.Key != key || closed(s.End) || s.End < at-m.gap || s.Start > at+m.gap {
			rest = append(rest, s)
			continue
		}
		merged.Start, merged.End, merged.Value = min(merged.Start, s.Start), max(merged.End, s.End), merged.Value+s.Value
	}
	if !closed(merged.End) {
		m.sessions = append(rest, merged)
	}
}

// Commits whose offsets were not committed are forwarded again, those that were are not: at least once a commit can fail
// after its changelog records are out, and then the store is ahead of the offsets.
func TestFinalResultsOfAFailedCommitComeAgain(t *testing.T) {
	w := windowed(t, counting(TumblingWindows(10*ms), OnWindowClose()))
	w.feed("k", 5, 15)
	w.want("first", w.commit(), "k[0,10]=1")
	committed := w.host.stream
	w.feed("k", 25)
	w.want("second", w.commit(), "k[10,20]=1")
	w.host.stream, w.host.ahead = committed, true // the second commit has failed; its changelog has not
	w.start()
	w.want("again", w.commit(), "k[10,20]=1")
	w.host.ahead = false // exactly once the offsets go with the state, whatever timestamps the records had
	w.start()
	w.want("never again", w.commit())
}

// A failure in the middle of what has closed loses nothing behind it and repeats nothing before it.
func TestAFlushOfFinalResultsGoesOnBehindAFailure(t *testing.T) {
	b := NewBuilder()
	var got []string
	bad := true
	final := CountWindows(From(b, in), TumblingWindows(10*ms), NewWindowStore("w", codec.String, codec.Int64, 10*ms, time.Hour), OnWindowClose())
	Process(final, "p", func() Processor[Windowed[string], int64, Void, Void] {
		return failOnce(func(key string) error {
			if key == "b" && bad {
				bad = false
				return errBroker
			}
			got = append(got, key)
			return nil
		})
	})
	w := start(t, b, newMemory())
	for _, key := range []string{"a", "b", "c"} {
		w.feed("in", key, "", 1)
	}
	w.feed("in", "d", "", 100)
	if err := w.instances[0].Flush(); !errors.Is(err, errBroker) {
		t.Fatal(err)
	}
	if err := w.instances[0].Flush(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if s := strings.Join(got, ""); s != "ac" {
		t.Errorf("forwarded %q", s)
	}
}

type failOnce func(key string) error

func (failOnce) Init(*Context[Void, Void]) error { return nil }
func (failOnce) Close() error                    { return nil }
func (f failOnce) Process(r record.Record[Windowed[string], int64]) error {
	return f(r.Key.Key)
}

// Describe shows windows, what emits them, and how long they are kept.
func TestDescribeShowsWindowsAndRetention(t *testing.T) {
	b := NewBuilder()
	s := From(b, in)
	CountWindows(s, HoppingWindows(time.Minute, 10*time.Second).WithGrace(5*time.Second), NewWindowStore("per-minute", codec.String, codec.Int64, time.Minute, time.Hour), OnWindowClose(), MaxTimestampJump(time.Hour))
	CountSessions(s, SessionWindows(time.Minute), NewSessionStore("visits", codec.String, codec.Int64, 2*time.Hour).InMemory())
	Count(s, counts.InMemory())
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"count-windows-0000000001 (stores: [per-minute (window 1m0s, retention 1h0m0s)])\n      windows: hopping 1m0s every 10s, grace 5s, emit on window close, at most 1h0m0s ahead\n",
		"count-sessions-0000000002 (stores: [visits (session, retention 2h0m0s, in memory)])\n      windows: session gap 1m0s, grace 0s, emit once per commit\n",
		"count-0000000003 (stores: [counts (in memory)])\n      -->",
	} {
		if d := top.Describe(); !strings.Contains(d, want) {
			t.Errorf("%q is not in\n%s", want, d)
		}
	}
	if d := gocmp.Diff([]string{"sliding 1s, grace 0s", "tumbling 2s, grace 0s"}, []string{fmt.Sprint(SlidingWindows(time.Second)), fmt.Sprint(TumblingWindows(2 * time.Second))}); d != "" {
		t.Error(d)
	}
}
