package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// windowTexts and sessionTexts are handles of "counts" as a store of windows.
type (
	windowTexts  struct{ texts }
	sessionTexts struct{ texts }
)

func (windowTexts) StoreKind() string         { return kindWindow }
func (windowTexts) WindowSize() time.Duration { return minute * time.Millisecond }
func (sessionTexts) StoreKind() string        { return kindSession }

type (
	windowEntry  = query.Entry[record.Windowed[string], []byte]
	windowScan   = iter.Seq2[windowEntry, error]
	windowFilter = func(key string, start, end int64) bool
)

// windowModel is what the partitions hold, by partition and key of the store.
type windowModel struct {
	kind  string
	parts []map[string]Write
}

// want are the live windows of a filter, in the order of a scan.
func (m *windowModel) want(s *served, f windowFilter) (all []windowEntry) {
	for p, part := range m.parts {
		for _, k := range slices.Sorted(maps.Keys(part)) {
			w := part[k]
			e := windowEntry{Value: w.Value, Timestamp: w.Timestamp, Partition: int32(p)}
			var key []byte
			at := int64(0)
			if m.kind == kindSession {
				key, e.Key.Start, e.Key.End, _ = record.SplitSessionKey(w.Key)
				at = e.Key.End
			} else {
				key, e.Key.Start, _, _ = record.SplitWindowKey(w.Key)
				e.Key.End, at = e.Key.Start+minute, e.Key.Start
			}
			if e.Key.Key = string(key); at >= s.states[p].LiveFrom(0) && f(e.Key.Key, e.Key.Start, e.Key.End) {
				all = append(all, e)
			}
		}
	}
	return all
}

func collect(t failer, scan windowScan) (all []windowEntry) {
	t.Helper()
	for e, err := range scan {
		if err != nil {
			t.Fatal(err)
		}
		if e.Value == nil {
			t.Fatal("an empty value became none")
		}
		all = append(all, e)
	}
	return all
}

var (
	windowNames      = rapid.SampledFrom([]string{"", "a", "a\x00", "aa", "a\x00\x00\x00\x00\x00\x00\x00\x00\x00", "b", "\x7f"})
	windowTimes      = rapid.OneOf(rapid.Int64Range(0, 4*minute), rapid.SampledFrom([]int64{0, 1, 255, 256, 65535, minute, 2 * minute}))
	windowTimesAsked = rapid.OneOf(windowTimes, rapid.SampledFrom([]int64{-1 << 63, -1, 1<<63 - 1}))
)

func (m *windowModel) write(t *rapid.T) Write {
	key, start := windowNames.Draw(t, "key"), windowTimes.Draw(t, "start")
	w := Write{Value: []byte(rapid.SampledFrom([]string{"", "v", "w"}).Draw(t, "value")), Key: record.AppendWindowSuffix([]byte(key), start, 0), Timestamp: start}
	if m.kind == kindSession {
		w.Timestamp = start + windowTimes.Draw(t, "length")
		w.Key = record.AppendSessionSuffix([]byte(key), start, w.Timestamp)
	}
	if rapid.IntRange(0, 9).Draw(t, "delete") == 0 {
		w.Value = nil
	}
	part := m.parts[record.Partition([]byte(key), int32(len(m.parts)))]
	if part[string(w.Key)] = w; w.Value == nil {
		delete(part, string(w.Key))
	}
	return w
}

// ask puts one question of each sort and compares the answer with the model's, forwards and backwards.
func (m *windowModel) ask(t *rapid.T, s *served) {
	page := query.PageSize(int32(rapid.IntRange(0, 4).Draw(t, "page")), 0)
	k1, k2 := windowNames.Draw(t, "key 1"), windowNames.Draw(t, "key 2")
	k1, k2 = min(k1, k2), max(k1, k2)
	t1, t2 := windowTimesAsked.Draw(t, "time 1"), windowTimesAsked.Draw(t, "time 2")
	from, to := min(t1, t2), max(t1, t2)
	within := func(at int64) bool { return at >= from && at <= to }
	between := func(k string) bool { return k >= k1 && k <= k2 }
	ctx := context.Background()
	type question struct {
		scan func(...query.Option) windowScan
		want windowFilter
	}
	questions := map[string]question{}
	if m.kind == kindWindow {
		questions["FetchRange"] = question{func(o ...query.Option) windowScan { return query.FetchRange(ctx, s, windowTexts{}, k1, from, to, o...) },
			func(k string, start, _ int64) bool { return k == k1 && within(start) }}
		questions["FetchKeys"] = question{func(o ...query.Option) windowScan {
			return query.FetchKeys(ctx, s, windowTexts{}, k1, k2, from, to, o...)
		},
			func(k string, start, _ int64) bool { return between(k) && within(start) }}
		questions["FetchAll"] = question{func(o ...query.Option) windowScan { return query.FetchAll(ctx, s, windowTexts{}, from, to, o...) },
			func(_ string, start, _ int64) bool { return within(start) }}
		questions["AllWindows"] = question{func(o ...query.Option) windowScan { return query.AllWindows(ctx, s, windowTexts{}, o...) },
			func(string, int64, int64) bool { return true }}
		m.fetch(t, s, k1, max(0, t1))
	} else {
		questions["FetchSessions"] = question{func(o ...query.Option) windowScan { return query.FetchSessions(ctx, s, sessionTexts{}, k1, o...) },
			func(k string, _, _ int64) bool { return k == k1 }}
		questions["FetchSessionKeys"] = question{func(o ...query.Option) windowScan {
			return query.FetchSessionKeys(ctx, s, sessionTexts{}, k1, k2, o...)
		},
			func(k string, _, _ int64) bool { return between(k) }}
		questions["FindSessions"] = question{func(o ...query.Option) windowScan {
			return query.FindSessions(ctx, s, sessionTexts{}, k1, t1, t2, o...)
		},
			func(k string, start, end int64) bool { return k == k1 && end >= t1 && start <= t2 }}
		questions["AllSessions"] = question{func(o ...query.Option) windowScan { return query.AllSessions(ctx, s, sessionTexts{}, o...) },
			func(string, int64, int64) bool { return true }}
	}
	for name, q := range questions {
		want := m.want(s, q.want)
		if d := cmp.Diff(want, collect(t, q.scan(page))); d != "" {
			t.Fatalf("%s(%q, %q, %d, %d): %s", name, k1, k2, t1, t2, d)
		}
		slices.Reverse(want)
		if d := cmp.Diff(want, collect(t, q.scan(page, query.Reverse()))); d != "" {
			t.Fatalf("%s(%q, %q, %d, %d) backwards: %s", name, k1, k2, t1, t2, d)
		}
	}
}

func (m *windowModel) fetch(t *rapid.T, s *served, key string, start int64) {
	want := m.want(s, func(k string, at, _ int64) bool { return k == key && at == start })
	v, found, err := query.Fetch(context.Background(), s, windowTexts{}, key, start)
	if err != nil || found != (len(want) == 1) || found && (v == nil || string(v) != string(want[0].Value)) {
		t.Fatalf("Fetch(%q, %d) = %q, %v, %v; want %v", key, start, v, found, err, want)
	}
}

// Whatever windows there are, of keys that are beginnings of each other, on disk and in memory: each question about them
// gives exactly those of a map that are asked for and live, in the order of the store or backwards, in pages of any size.
func TestQuestionsAboutWindowsEqualAMap(t *testing.T) {
	for _, kind := range []string{kindWindow, kindSession} {
		for _, inMemory := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in memory %v", kind, inMemory), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					spec := windowSpec(kind)
					spec.Stores[0].InMemory = inMemory
					n := int32(rapid.IntRange(1, 3).Draw(t, "partitions"))
					s, leave := serveSpec(t, vfs.NewMem(), n, spec)
					defer leave()
					m := &windowModel{kind: kind}
					for range n {
						m.parts = append(m.parts, map[string]Write{})
					}
					for range rapid.IntRange(1, 4).Draw(t, "commits") {
						m.commit(t, s)
						m.ask(t, s)
						all := m.want(s, func(string, int64, int64) bool { return true })
						if got, err := countOf(s, kind); err != nil || got != int64(len(all)) {
							t.Fatalf("Count = %d, %v, want %d", got, err, len(all))
						}
					}
				})
			})
		}
	}
}

func (m *windowModel) commit(t *rapid.T, s *served) {
	units := make([]map[string]Write, len(m.parts))
	for range rapid.IntRange(1, 20).Draw(t, "writes") {
		w := m.write(t)
		key, _, _, _ := record.SplitWindowKey(w.Key)
		if m.kind == kindSession {
			key, _, _, _ = record.SplitSessionKey(w.Key)
		}
		p := record.Partition(key, int32(len(m.parts)))
		if units[p] == nil {
			units[p] = map[string]Write{}
		}
		units[p][string(w.Key)] = w
	}
	for p, unit := range units {
		writes := slices.SortedFunc(maps.Values(unit), func(a, b Write) int { return slices.Compare(a.Key, b.Key) })
		apply(t, s.states[p], &Unit{Writes: writes})
	}
}

func countOf(s *served, kind string) (int64, error) {
	if kind == kindSession {
		return query.Count(context.Background(), s, sessionTexts{})
	}
	return query.Count(context.Background(), s, windowTexts{})
}

// serveWindows has one window or session of each of the keys k0 to k9 at each of the times 0 to 9.
func serveWindows(t *testing.T, kind string, partitions int32) *served {
	s, leave := serveSpec(t, vfs.NewMem(), partitions, windowSpec(kind))
	t.Cleanup(leave)
	for p := range partitions {
		var writes []Write
		for k := range 10 {
			key := fmt.Sprintf("k%d", k)
			for at := range int64(10) {
				if record.Partition([]byte(key), partitions) == p {
					writes = append(writes, windowWrite(kind, key, at, fmt.Sprint(at)))
				}
			}
		}
		apply(t, s.states[p], &Unit{Writes: writes, Position: record.Position{{Topic: "lines", Partition: p}: 5}})
	}
	return s
}

// A question about one key is a message to the actor of its partition alone, and pages hold what is asked for: a page is
// not thrown away because of what lies between.
func TestWindowsOfOneKeyAreAskedInItsPartition(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name, kind string
		read       func(*served) error
		home, each int64 // messages to the key's partition, and to each of the others
	}{
		{"Fetch", kindWindow, func(s *served) error { _, _, err := query.Fetch(ctx, s, windowTexts{}, "k3", 4); return err }, 1, 0},
		{"FetchRange", kindWindow, func(s *served) error { return last(query.FetchRange(ctx, s, windowTexts{}, "k3", 2, 6)) }, 1, 0},
		{"FetchRange in pages of 2", kindWindow, func(s *served) error {
			return last(query.FetchRange(ctx, s, windowTexts{}, "k3", 2, 6, query.PageSize(2, 0)))
		}, 3, 0},
		{"FetchKeys", kindWindow, func(s *served) error { return last(query.FetchKeys(ctx, s, windowTexts{}, "k0", "k9", 9, 9)) }, 1, 1},
		{"FetchAll", kindWindow, func(s *served) error { return last(query.FetchAll(ctx, s, windowTexts{}, 0, 0)) }, 1, 1},
		{"AllWindows", kindWindow, func(s *served) error { return last(query.AllWindows(ctx, s, windowTexts{})) }, 1, 1},
		{"FetchSessions", kindSession, func(s *served) error { return last(query.FetchSessions(ctx, s, sessionTexts{}, "k3")) }, 1, 0},
		{"FindSessions", kindSession, func(s *served) error { return last(query.FindSessions(ctx, s, sessionTexts{}, "k3", 3, 3)) }, 1, 0},
		{"FetchSessionKeys", kindSession, func(s *served) error { return last(query.FetchSessionKeys(ctx, s, sessionTexts{}, "k0", "k9")) }, 1, 1},
	} {
		s := serveWindows(t, c.kind, 3)
		if err := c.read(s); err != nil {
			t.Fatal(c.name, err)
		}
		_, handled := s.counts()
		for p, got := range handled {
			want := c.each
			if int32(p) == record.Partition([]byte("k3"), 3) {
				want = c.home
			}
			if got != want {
				t.Errorf("%s: %d messages to partition %d, want %d", c.name, got, p, want)
			}
		}
	}
}

func last(scan windowScan) (err error) {
	for _, err = range scan {
	}
	return err
}

// A scan of windows whose store is taken away ends with the last key at its next step, and resumes without a gap.
func TestWindowScanIsCutAndResumes(t *testing.T) {
	for _, opts := range [][]query.Option{{query.PageSize(2, 0)}, {query.PageSize(2, 0), query.Reverse()}} {
		s := serveWindows(t, kindWindow, 2)
		want := collect(t, query.FetchKeys(t.Context(), s, windowTexts{}, "k2", "k7", 3, 5, opts...))
		var got []windowEntry
		var f *query.Failure
		for e, err := range query.FetchKeys(t.Context(), s, windowTexts{}, "k2", "k7", 3, 5, opts...) {
			if errors.As(err, &f) {
				break
			}
			if got = append(got, e); len(got) == 3 { // one of its page is left
				s.Opening("counts", e.Partition, "thread-1", 2)
				s.Serving("counts", e.Partition, s.pids[e.Partition], 2)
			}
		}
		if f == nil || f.Kind != query.StateStoreMigrated || f.LastKey == nil || len(got) != 3 {
			t.Fatalf("%+v after %d", f, len(got))
		}
		got = append(got, collect(t, query.FetchKeys(t.Context(), s, windowTexts{}, "k2", "k7", 3, 5, append(opts, f.Resume())...))...)
		if d := cmp.Diff(want, got); d != "" || len(got) != 18 {
			t.Fatal(len(got), d)
		}
	}
}

// What the state closing under it does to a scan is what it does to any other.
func TestWindowsOfAClosedStateAreTypedFailures(t *testing.T) {
	s := serveWindows(t, kindSession, 1)
	if err := s.states[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := last(query.FetchSessions(t.Context(), s, sessionTexts{}, "k1")); !errors.Is(err, query.ErrStateStoreMigrated) || !errors.Is(err, query.ErrStateStoreClosed) {
		t.Fatal(err)
	}
}

func TestWindowsWaitForAPosition(t *testing.T) {
	s := serveWindows(t, kindWindow, 1)
	if err := last(query.FetchRange(t.Context(), s, windowTexts{}, "k1", 0, 9, query.AtLeast(source0(5)))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := last(query.FetchRange(ctx, s, windowTexts{}, "k1", 0, 9, query.AtLeast(source0(6)))); !errors.Is(err, query.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

// Each read of a store of another kind is a mismatch, whoever sees it first: the client, the gate or the actor.
func TestReadsOfAnotherKindAreMismatches(t *testing.T) {
	ctx := t.Context()
	stores := map[string]*served{"key-value": serve(t, vfs.NewMem(), 1), kindWindow: serveWindows(t, kindWindow, 1), kindSession: serveWindows(t, kindSession, 1)}
	reads := map[string]map[string]func(*served) error{
		"key-value": {
			"Get":     func(s *served) error { _, _, err := query.Get(ctx, s, texts{}, "k"); return err },
			"GetMany": func(s *served) error { _, err := query.GetMany(ctx, s, texts{}, []string{"k"}); return err },
			"All": func(s *served) (err error) {
				for _, err = range query.All(ctx, s, texts{}) {
				}
				return err
			},
		},
		kindWindow: {
			"Fetch":      func(s *served) error { _, _, err := query.Fetch(ctx, s, windowTexts{}, "k", 0); return err },
			"AllWindows": func(s *served) error { return last(query.AllWindows(ctx, s, windowTexts{})) },
			"IterateWindows": func(s *served) error {
				_, err := query.IterateWindows(ctx, s, windowTexts{}, query.EveryWindow[string]()).HasNext()
				return err
			},
		},
		kindSession: {
			"FetchSessions": func(s *served) error { return last(query.FetchSessions(ctx, s, sessionTexts{}, "k")) },
			"AllSessions":   func(s *served) error { return last(query.AllSessions(ctx, s, sessionTexts{})) },
		},
	}
	for have, s := range stores {
		for asked, list := range reads {
			for name, read := range list {
				if err := read(s); (err == nil) != (have == asked) || err != nil && !errors.Is(err, query.ErrStateStoreTypeMismatch) {
					t.Errorf("%s of a %s store: %v", name, have, err)
				}
			}
		}
	}
}

// The handle itself is of the wrong kind for the read: it is not sent, and told in the same way.
func TestReadsWithAHandleOfAnotherKindAreMismatches(t *testing.T) {
	ctx, s := t.Context(), serveWindows(t, kindWindow, 1)
	view, err := query.Open(ctx, s, windowTexts{})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.counts()
	_, _, err1 := query.Get(ctx, s, windowTexts{}, "k1")
	_, err2 := view.GetMany(ctx, []string{"k1"})
	_, err3 := view.Iterate(ctx, query.Everything[string]()).HasNext()
	err4 := last(view.FindSessions(ctx, "k1", 0, 9))
	err5 := last(query.FetchSessions(ctx, s, windowTexts{}, "k1"))
	_, _, err6 := view.Get(ctx, "k1")
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if !errors.Is(err, query.ErrStateStoreTypeMismatch) || !errors.Is(err, query.ErrFatal) {
			t.Errorf("%d: %v", i+1, err)
		}
	}
	if after, _ := s.counts(); after-before != 6 {
		t.Errorf("%d messages: each read may ask once whether the store is there", after-before)
	}
	if v, found, err := view.Fetch(ctx, "k1", 3); string(v) != "3" || !found || err != nil {
		t.Error(v, found, err)
	}
}

// What the messages themselves may say wrongly, to a gate and to an actor alike.
func TestStoreActorRefusesMistakesAboutWindows(t *testing.T) {
	_, plain := servedState(t, 1)
	windows, sessions := serveWindows(t, kindWindow, 1).pids[0], serveWindows(t, kindSession, 1).pids[0]
	low, high, all := int64(1), int64(2), &querypb.Windows{}
	for name, c := range map[string]struct {
		pid  string
		q    proto.Message
		want error
	}{
		"windows of a key-value store": {"plain", &querypb.Range{Windows: all}, query.ErrStateStoreTypeMismatch},
		"all windows":                  {"windows", &querypb.Range{Windows: all}, nil},
		"all sessions":                 {"sessions", &querypb.Range{Windows: all}, nil},
		"ends of windows":              {"windows", &querypb.Range{Windows: &querypb.Windows{EndTo: &high}}, query.ErrInvalidQuery},
		"ends of sessions":             {"sessions", &querypb.Range{Windows: &querypb.Windows{EndTo: &high}}, nil},
		"keys backwards":               {"windows", &querypb.Range{Windows: &querypb.Windows{KeyFrom: []byte("b"), KeyTo: []byte("a")}}, query.ErrInvalidQuery},
		"starts backwards":             {"windows", &querypb.Range{Windows: &querypb.Windows{StartFrom: &high, StartTo: &low}}, query.ErrInvalidQuery},
		"ends backwards":               {"sessions", &querypb.Range{Windows: &querypb.Windows{EndFrom: &high, EndTo: &low}}, query.ErrInvalidQuery},
		"a key too long":               {"windows", &querypb.Range{Windows: &querypb.Windows{KeyTo: make([]byte, query.MaxKeyBytes+1)}}, query.ErrInvalidQuery},
		"get of a key without times":   {"windows", &querypb.Get{Key: []byte("k1")}, query.ErrInvalidQuery},
		"get of a window":              {"windows", &querypb.Get{Key: windowKey(kindWindow, "k1", 1)}, nil},
		"get of a window before 0":     {"windows", &querypb.Get{Key: windowKey(kindWindow, "k1", -1)}, query.ErrInvalidQuery},
		"get many with one without":    {"sessions", &querypb.GetMany{Keys: [][]byte{windowKey(kindSession, "k1", 1), []byte("k1")}}, query.ErrInvalidQuery},
	} {
		pid := map[string]*actor.PID{"plain": plain, "windows": windows, "sessions": sessions}[c.pid]
		if _, err := ask(t, pid, c.q); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A page ends when its time is over although nothing was found, says how far it has got, and the next goes on there.
func TestPageOfWindowsEndsInTimeAndGoesOn(t *testing.T) {
	s := serveWindows(t, kindWindow, 1)
	var writes []Write
	for at := range int64(1000) {
		writes = append(writes, windowWrite(kindWindow, "k5", at, "v"))
	}
	apply(t, s.states[0], &Unit{Writes: writes})
	late := int64(990)
	for _, reverse := range []bool{false, true} {
		q := &querypb.Range{Reverse: reverse, Windows: &querypb.Windows{StartFrom: &late}}
		empty, found := 0, 0
		for more := true; more; {
			p := &pager{chosen: choose(&s.states[0].spec.Stores[0], q.Windows, 0), entries: 3, size: 1 << 20} // its time is over
			if _, err := s.states[0].walk(0, func(int64) span { return p.chosen.within(pageSpan(q)) }, p.take); err != nil {
				t.Fatal(err)
			}
			if found += len(p.page.Entries); len(p.page.Entries) == 0 && p.page.More {
				if empty++; p.looked > 64 || p.page.Resume == nil {
					t.Fatalf("a page has looked at %d rows; it goes on at %x", p.looked, p.page.Resume)
				}
			}
			if more = p.page.More; more && p.page.Resume != nil {
				q.Resume = p.page.Resume
			} else if more {
				q.Resume = p.page.Entries[len(p.page.Entries)-1].Key
			}
		}
		if found != 10 || empty < 10 {
			t.Errorf("reverse %v: %d windows, %d empty pages", reverse, found, empty)
		}
	}
}

// Null, empty and absent are three things (H12): an empty key and an empty value are ones, a null value deletes.
func TestH12WindowsOfEmptyKeysAndValues(t *testing.T) {
	s := serveWindows(t, kindWindow, 1)
	apply(t, s.states[0], &Unit{Writes: []Write{windowWrite(kindWindow, "", 1, ""), {Key: windowKey(kindWindow, "k1", 1)}}})
	if v, found, err := query.Fetch(t.Context(), s, windowTexts{}, "", 1); v == nil || len(v) != 0 || !found || err != nil {
		t.Error("an empty value:", v, found, err)
	}
	for key, start := range map[string]int64{"": 2, "k1": 1, "nobody": 1} {
		if v, found, err := query.Fetch(t.Context(), s, windowTexts{}, key, start); v != nil || found || err != nil {
			t.Error("absent:", key, v, found, err)
		}
	}
	if got := collect(t, query.FetchRange(t.Context(), s, windowTexts{}, "", 0, 9)); len(got) != 1 || got[0].Key != (record.Windowed[string]{Start: 1, End: 1 + minute}) {
		t.Error("the windows of the empty key:", got)
	}
	if _, err := ask(t, s.pids[0], &querypb.Get{}); !errors.Is(err, query.ErrInvalidQuery) {
		t.Error("a null key:", err)
	}
}

// scanned is the number of entries on all pages: a page ends when its time is over, with one entry or with none.
func scanned(t *testing.T, pid *actor.PID, q *querypb.Range) (entries int, err error) {
	t.Helper()
	for more := true; more; {
		reply, err := ask(t, pid, q)
		if err != nil {
			return entries, err
		}
		page := reply.GetPage()
		for _, e := range page.Entries {
			q.Resume = e.Key
		}
		if page.Resume != nil {
			q.Resume = page.Resume
		}
		entries, more = entries+len(page.Entries), page.More
	}
	return entries, nil
}

// Windows that have expired are not answered, by no question, although no sweep has deleted them.
func TestExpiredWindowsAreNotAnswered(t *testing.T) {
	for _, kind := range []string{kindWindow, kindSession} {
		s := serveWindows(t, kind, 1)
		apply(t, s.states[0], &Unit{Writes: []Write{windowWrite(kind, "k0", 2*minute+4, "v")}}) // what is at 5 lives on
		if rows := len(content(t, s.states[0], 0)); rows != 101 || s.states[0].LiveFrom(0) != 5 {
			t.Fatalf("%d rows, live from %d", rows, s.states[0].LiveFrom(0))
		}
		if n, err := countOf(s, kind); n != 51 || err != nil {
			t.Errorf("%s: Count = %d, %v", kind, n, err)
		}
		reply, err := ask(t, s.pids[0], &querypb.GetMany{Keys: [][]byte{windowKey(kind, "k1", 4), windowKey(kind, "k1", 5)}})
		if v := reply.GetValues().GetValues(); err != nil || len(v) != 2 || v[0].Present || v[0].Value != nil || !v[1].Present {
			t.Errorf("%s: GetMany gave %v, %v", kind, v, err)
		}
		for at, want := range map[int64]bool{4: false, 5: true} {
			if reply, err := ask(t, s.pids[0], &querypb.Get{Key: windowKey(kind, "k1", at)}); err != nil || reply.GetValue().Present != want {
				t.Errorf("%s: Get at %d gave %v, %v", kind, at, reply, err)
			}
		}
		for name, q := range map[string]*querypb.Range{"Range": {}, "of windows": {Windows: &querypb.Windows{}}, "of the expired": {Windows: &querypb.Windows{StartTo: new(int64)}}} {
			want := 51
			if name == "of the expired" {
				want = map[string]int{kindWindow: 0, kindSession: 30}[kind] // sessions from 0 that end at 5, 6 and 7
			}
			if n, err := scanned(t, s.pids[0], q); err != nil || n != want {
				t.Errorf("%s: %s gave %d, %v; want %d", kind, name, n, err, want)
			}
		}
	}
}
