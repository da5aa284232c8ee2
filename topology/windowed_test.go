package topology_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// result is what an aggregation has forwarded; a value of -1 deletes.
type result struct {
	Key        string
	Start, End int64
	Value      int64
}

func (r result) String() string {
	return fmt.Sprintf("%s[%d,%d]=%d", r.Key, r.Start, r.End, r.Value)
}

// windows is a topology with one windowed aggregation at work. It can be started again on the same stores.
type windows struct {
	t        rapid.TB
	host     *memory
	instance *Instance
	feedRaw  func(*record.Raw) error
	got      []result
	top      *Topology
}

// windowed starts an aggregation of the values' number. wire is given the input and returns the result.
func windowed(t rapid.TB, wire func(Stream[string, string]) Stream[Windowed[string], int64]) *windows {
	t.Helper()
	w := &windows{t: t, host: newMemory()}
	b := NewBuilder()
	Peek(wire(From(b, in)), func(r record.Record[Windowed[string], int64]) {
		v := result{r.Key.Key, r.Key.Start, r.Key.End, r.Value}
		if r.NoValue {
			v.Value = -1
		}
		w.got = append(w.got, v)
	})
	var err error
	if w.top, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// start is a restart after a commit, too: the fake's stores are what was committed.
func (w *windows) start() {
	w.t.Helper()
	instance, err := w.top.Bind("app").SubTopologies[0].Instantiate(w.host)
	if err == nil {
		err = instance.Init()
	}
	if err == nil {
		w.feedRaw, err = instance.Source("in")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.instance = instance
}

func (w *windows) feed(key string, at ...int64) {
	w.t.Helper()
	for _, ts := range at {
		w.host.stream = max(w.host.stream, ts)
		if err := w.feedRaw(&record.Raw{Key: []byte(key), Value: []byte("v"), Timestamp: ts}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// commit gives what was forwarded since the last one, in the order of keys and times.
func (w *windows) commit() []string {
	w.t.Helper()
	if err := w.instance.Flush(); err != nil {
		w.t.Fatal(err)
	}
	return w.forwarded()
}

func (w *windows) forwarded() (all []string) {
	slices.SortStableFunc(w.got, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	for _, r := range w.got {
		all = append(all, r.String())
	}
	w.got = nil
	return all
}

func (w *windows) want(what string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func (w *windows) wantDropped(want map[string]int) {
	w.t.Helper()
	if !maps.Equal(w.host.dropped, want) {
		w.t.Fatalf("dropped %v, want %v", w.host.dropped, want)
	}
}

func counting(w Windows, opts ...AggregateOption) func(Stream[string, string]) Stream[Windowed[string], int64] {
	return func(s Stream[string, string]) Stream[Windowed[string], int64] {
		return CountWindows(s, w, NewWindowStore("w", codec.String, codec.Int64, 10*ms, time.Hour), opts...)
	}
}

func countingSessions(w Sessions, opts ...AggregateOption) func(Stream[string, string]) Stream[Windowed[string], int64] {
	return func(s Stream[string, string]) Stream[Windowed[string], int64] {
		return CountSessions(s, w, NewSessionStore("s", codec.String, codec.Int64, time.Hour), opts...)
	}
}

func TestTumblingWindowsEmitOncePerCommit(t *testing.T) {
	w := windowed(t, counting(TumblingWindows(10*ms)))
	w.feed("a", 0, 9, 10, 9)
	w.feed("b", 5)
	w.want("before the commit", w.forwarded())
	// The grace period is 0, so the 9 behind the 10 is late.
	w.want("commit", w.commit(), "a[0,10]=2", "a[10,20]=1")
	w.wantDropped(map[string]int{"late record": 2})
	w.want("nothing changed", w.commit())
}

func TestHoppingWindowsOverlap(t *testing.T) {
	w := windowed(t, counting(HoppingWindows(10*ms, 4*ms).WithGrace(2*ms), EveryUpdate()))
	w.feed("a", 9) // windows from 0, 4 and 8 on
	w.want("9", w.forwarded(), "a[0,10]=1", "a[4,14]=1", "a[8,18]=1")
	w.feed("a", 12) // closes the one from 0 on
	w.want("12", w.forwarded(), "a[4,14]=2", "a[8,18]=2", "a[12,22]=1")
	w.feed("a", 8)
	w.want("8 is late for one of its windows", w.forwarded(), "a[4,14]=3", "a[8,18]=3")
	w.feed("a", 1)
	w.want("1 is late", w.forwarded())
	w.wantDropped(map[string]int{"late record": 1, "late for a window": 1})
	s := w.instance.StreamTimes()
	if len(s) != 1 || s[0].StreamTime != 12 || s[0].Late != 1 || s[0].PartlyLate != 1 || s[0].Store != "w" {
		t.Errorf("%+v", s)
	}
}

// The last millisecond in which a window takes records, for every shape: end + grace for an end that is excluded, one more
// for one that is included, the gap on top for sessions.
func TestWindowsCloseToTheMillisecond(t *testing.T) {
	for _, grace := range []int64{0, 1, 5} {
		g := time.Duration(grace) * ms
		for name, c := range map[string]struct {
			wire func(Stream[string, string]) Stream[Windowed[string], int64]
			last int64 // the highest stream time at which a record at 0 is taken
		}{
			"tumbling": {counting(TumblingWindows(10 * ms).WithGrace(g)), 9 + grace},
			"hopping":  {counting(HoppingWindows(10*ms, 10*ms).WithGrace(g)), 9 + grace},
			"sliding":  {counting(SlidingWindows(10 * ms).WithGrace(g)), 10 + grace},
			"session":  {countingSessions(SessionWindows(10 * ms).WithGrace(g)), 10 + grace},
		} {
			for _, late := range []bool{false, true} {
				w := windowed(t, c.wire)
				w.feed("other", c.last)
				if late {
					w.feed("other", c.last+1)
				}
				before := len(w.commit())
				w.feed("k", 0)
				got, want := len(w.commit()), map[bool]int{false: 1, true: 0}[late]
				if name == "sliding" && late {
					// The window from 1 on is open still, but nothing is in it.
					w.wantDropped(map[string]int{"late record": 1})
				}
				if before == 0 || got != want {
					t.Errorf("%s, grace %d, late %v: %d results", name, grace, late, got)
				}
			}
		}
	}
}

// expected computes every window of a list of records that are all taken.
func expected(records map[string][]int64, windowsOf func(all []int64) map[[2]int64]bool, holds func(w [2]int64, at int64) bool) (want []string) {
	for _, key := range slices.Sorted(maps.Keys(records)) {
		all := windowsOf(records[key])
		for _, w := range slices.SortedFunc(maps.Keys(all), func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) }) {
			n := int64(0)
			for _, at := range records[key] {
				if holds(w, at) {
					n++
				}
			}
			if n > 0 {
				want = append(want, result{key, w[0], w[1], n}.String())
			}
		}
	}
	return want
}

// drawRecords feeds records in any order, with commits in between, and returns them and the last result of each window.
func drawRecords(t *rapid.T, w *windows, restart bool) (map[string][]int64, []string) {
	records, last := map[string][]int64{}, map[result]int64{}
	note := func() {
		w.commit0()
		for _, r := range w.got {
			at := result{r.Key, r.Start, r.End, 0}
			if last[at] = r.Value; r.Value < 0 {
				delete(last, at)
			}
		}
		w.got = nil
	}
	for range rapid.IntRange(0, 25).Draw(t, "records") {
		key := rapid.SampledFrom([]string{"a", "a\x00", ""}).Draw(t, "key")
		at := rapid.Int64Range(0, 60).Draw(t, "at")
		w.feed(key, at)
		records[key] = append(records[key], at)
		switch rapid.IntRange(0, 5).Draw(t, "then") {
		case 0:
			note()
		case 1:
			if note(); restart {
				w.start()
			}
		}
	}
	note()
	var got []string
	for _, at := range slices.SortedFunc(maps.Keys(last), func(a, b result) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	}) {
		at.Value = last[result{at.Key, at.Start, at.End, 0}]
		got = append(got, at.String())
	}
	return records, got
}

func (w *windows) commit0() {
	if err := w.instance.Flush(); err != nil {
		w.t.Fatal(err)
	}
}

const size = 10

func TestTimeWindowsEqualTheirDefinition(t *testing.T) {
	for _, advance := range []int64{1, 3, 4, 10} {
		rapid.Check(t, func(t *rapid.T) {
			w := windowed(t, counting(HoppingWindows(size*ms, time.Duration(advance)*ms).WithGrace(time.Minute)))
			records, got := drawRecords(t, w, true)
			want := expected(records, func([]int64) map[[2]int64]bool {
				all := map[[2]int64]bool{}
				for start := int64(0); start <= 60; start += advance {
					all[[2]int64{start, start + size}] = true
				}
				return all
			}, func(w [2]int64, at int64) bool { return at >= w[0] && at < w[1] })
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// A sliding window is there for every set of records that are at most the difference apart: one ends at each record, one
// begins right behind each, unless nothing is in it.
func TestSlidingWindowsEqualTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := windowed(t, counting(SlidingWindows(size*ms).WithGrace(time.Minute)))
		records, got := drawRecords(t, w, true)
		want := expected(records, func(records []int64) map[[2]int64]bool {
			all := map[[2]int64]bool{}
			for _, at := range records {
				left := max(0, at-size)
				all[[2]int64{left, left + size}] = true
				all[[2]int64{at + 1, at + 1 + size}] = true
			}
			return all
		}, func(w [2]int64, at int64) bool { return at >= w[0] && at <= w[1] })
		if d := gocmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// Sessions are the runs of records without a gap above the inactivity gap, however the records came.
func TestSessionsEqualTheirDefinition(t *testing.T) {
	for _, opts := range [][]AggregateOption{nil, {EveryUpdate()}} {
		rapid.Check(t, func(t *rapid.T) {
			w := windowed(t, countingSessions(SessionWindows(4*ms).WithGrace(time.Minute), opts...))
			records, got := drawRecords(t, w, true)
			var want []string
			for _, key := range slices.Sorted(maps.Keys(records)) {
				all := slices.Sorted(slices.Values(records[key]))
				for i := 0; i < len(all); {
					j := i + 1
					for j < len(all) && all[j]-all[j-1] <= 4 {
						j++
					}
					want = append(want, result{key, all[i], all[j-1], int64(j - i)}.String())
					i = j
				}
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestReduceAndAggregateInWindowsAndSessions(t *testing.T) {
	join := func(a, v string) (string, error) { return a + v, nil }
	add := func(_, v, a string) (string, error) { return a + v, nil }
	merge := func(_, a, b string) (string, error) { return a + "|" + b, nil }
	store := NewWindowStore("w", codec.String, codec.String, 10*ms, time.Hour)
	sessions := NewSessionStore("s", codec.String, codec.String, time.Hour)
	begin := func() string { return ">" }
	for want, wire := range map[string]func(Stream[string, string]) Stream[Windowed[string], string]{
		"[0,10]xy [10,20]z": func(s Stream[string, string]) Stream[Windowed[string], string] {
			return ReduceWindows(s, TumblingWindows(10*ms).WithGrace(time.Minute), store, join)
		},
		"[0,10]>xy [10,20]>z": func(s Stream[string, string]) Stream[Windowed[string], string] {
			return AggregateWindows(s, TumblingWindows(10*ms).WithGrace(time.Minute), store, begin, add)
		},
		"[1,10]xzy": func(s Stream[string, string]) Stream[Windowed[string], string] {
			return ReduceSessions(s, SessionWindows(5*ms).WithGrace(time.Minute), sessions, join)
		},
		"[1,10]>x|>zy": func(s Stream[string, string]) Stream[Windowed[string], string] {
			return AggregateSessions(s, SessionWindows(5*ms).WithGrace(time.Minute), sessions, begin, add, merge)
		},
	} {
		b := NewBuilder()
		var got []string
		Peek(wire(From(b, in)), func(r record.Record[Windowed[string], string]) {
			got = append(got, fmt.Sprintf("[%d,%d]%s", r.Key.Start, r.Key.End, r.Value))
		})
		w := start(t, b, newMemory())
		w.feed("in", "k", "x", 1)
		w.feed("in", "k", "z", 10)
		w.feed("in", "k", "y", 5)
		if err := errors.Join(w.raw("in", &record.Raw{Value: []byte("v")}), w.raw("in", &record.Raw{Key: []byte("k")})); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q, want %q", g, want)
		}
		if d := gocmp.Diff(map[string]int{"null key": 1, "null value": 1}, w.host.dropped); d != "" {
			t.Errorf("%s: %s", want, d)
		}
	}
}

// An error of user code names the node, and a record that fails moves no stream time: the next one is not late for it.
func TestAFailingAggregatorMovesNoStreamTime(t *testing.T) {
	boom := errors.New("boom")
	for name, wire := range map[string]func(Stream[string, string], func() error) Stream[Windowed[string], int64]{
		"windows": func(s Stream[string, string], fail func() error) Stream[Windowed[string], int64] {
			return AggregateWindows(s, TumblingWindows(10*ms), NewWindowStore("w", codec.String, codec.Int64, 10*ms, time.Hour), func() int64 { return 0 },
				func(_, _ string, a int64) (int64, error) { return a + 1, fail() })
		},
		"sliding": func(s Stream[string, string], fail func() error) Stream[Windowed[string], int64] {
			return AggregateWindows(s, SlidingWindows(10*ms), NewWindowStore("w", codec.String, codec.Int64, 10*ms, time.Hour), func() int64 { return 0 },
				func(_, _ string, a int64) (int64, error) { return a + 1, fail() })
		},
		"sessions": func(s Stream[string, string], fail func() error) Stream[Windowed[string], int64] {
			return AggregateSessions(s, SessionWindows(10*ms), NewSessionStore("s", codec.String, codec.Int64, time.Hour), func() int64 { return 0 },
				func(_, _ string, a int64) (int64, error) { return a + 1, fail() }, func(_ string, a, b int64) (int64, error) { return a + b, nil })
		},
	} {
		var failing error
		w := windowed(t, func(s Stream[string, string]) Stream[Windowed[string], int64] {
			return wire(s, func() error { return failing })
		})
		w.feed("k", 5)
		failing = boom
		err := w.feedRaw(&record.Raw{Key: []byte("k"), Value: []byte("v"), Timestamp: 1_000})
		var p *ProcessorError
		if !errors.As(err, &p) || p.Cause != boom || p.Node == "" {
			t.Errorf("%s: %v", name, err)
		}
		failing = nil
		w.feed("k", 6)
		if s := w.instance.StreamTimes(); s[0].StreamTime != 6 || s[0].Late != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestWindowMistakes(t *testing.T) {
	window := func(size, retention time.Duration) WindowStore[string, int64] {
		return NewWindowStore("w", codec.String, codec.Int64, size, retention)
	}
	session := func(retention time.Duration) SessionStore[string, int64] {
		return NewSessionStore("s", codec.String, codec.Int64, retention)
	}
	plain := NewKeyValueStore("kv", codec.String, codec.Int64)
	type input = Stream[string, string]
	for name, c := range map[string]struct {
		wire func(input)
		want Reason
	}{
		"no size":        {func(s input) { CountWindows(s, TumblingWindows(0), window(1, time.Hour)) }, InvalidWindows},
		"no advance":     {func(s input) { CountWindows(s, HoppingWindows(10*ms, 0), window(10*ms, time.Hour)) }, InvalidWindows},
		"advance > size": {func(s input) { CountWindows(s, HoppingWindows(10*ms, 11*ms), window(10*ms, time.Hour)) }, InvalidWindows},
		"negative grace": {func(s input) { CountWindows(s, TumblingWindows(10*ms).WithGrace(-1*ms), window(10*ms, time.Hour)) }, InvalidWindows},
		"another size":   {func(s input) { CountWindows(s, TumblingWindows(10*ms), window(20*ms, time.Hour)) }, InvalidWindows},
		"short":          {func(s input) { CountWindows(s, TumblingWindows(10*ms).WithGrace(5*ms), window(10*ms, 14*ms)) }, ShortRetention},
		"short sliding":  {func(s input) { CountWindows(s, SlidingWindows(10*ms).WithGrace(5*ms), window(10*ms, 25*ms)) }, ShortRetention},
		"short sessions": {func(s input) { CountSessions(s, SessionWindows(10*ms).WithGrace(5*ms), session(14*ms)) }, ShortRetention},
		"no retention":   {func(s input) { CountSessions(s, SessionWindows(10*ms), session(0)) }, ShortRetention},
		"no gap":         {func(s input) { CountSessions(s, SessionWindows(0), session(time.Hour)) }, InvalidWindows},
		"both emissions": {func(s input) {
			CountSessions(s, SessionWindows(1*ms), session(time.Hour), EveryUpdate(), OnWindowClose())
		}, ConflictingSettings},
		"negative jump": {func(s input) { CountSessions(s, SessionWindows(1*ms), session(time.Hour), MaxTimestampJump(-1)) }, ConflictingSettings},
		"final count":   {func(s input) { Count(s, plain, OnWindowClose()) }, ConflictingSettings},
		"bounded count": {func(s input) { Count(s, plain, MaxTimestampJump(ms)) }, ConflictingSettings},
		"two of a store": {func(s input) {
			CountSessions(s, SessionWindows(ms), session(time.Hour))
			CountSessions(s, SessionWindows(ms), session(time.Hour))
		}, TwoAggregations},
		"two retentions": {func(s input) {
			b := session(time.Hour)
			CountSessions(s, SessionWindows(ms), b)
			CountSessions(s, SessionWindows(ms), session(2*time.Hour))
		}, DuplicateStore},
		"no merge": {func(s input) {
			AggregateSessions(s, SessionWindows(ms), session(time.Hour), func() int64 { return 0 }, func(string, string, int64) (int64, error) { return 0, nil }, nil)
		}, MissingFunction},
		"no reducer": {func(s input) {
			ReduceWindows(MapValues(s, func(string) int64 { return 0 }), TumblingWindows(10*ms), window(10*ms, time.Hour), nil)
		}, MissingFunction},
		"no codec": {func(s input) {
			CountWindows(s, TumblingWindows(10*ms), NewWindowStore[string, int64]("w", nil, nil, 10*ms, time.Hour))
		}, MissingCodec},
		"two kinds": {func(s input) {
			CountWindows(s, TumblingWindows(10*ms), window(10*ms, time.Hour))
			Count(s, NewKeyValueStore("w", codec.String, codec.Int64))
		}, DuplicateStore},
	} {
		b := NewBuilder()
		c.wire(From(b, in))
		_, err := b.Build()
		if !slices.ContainsFunc(mistakes(err), func(m *BuildError) bool { return m.Reason == c.want && m.Detail != "" }) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
