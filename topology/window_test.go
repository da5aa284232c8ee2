package topology_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

func openWindow[K, V any](t rapid.TB, store WindowStore[K, V]) (view *Window[K, V], host *memory) {
	t.Helper()
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) (err error) { view, err = store.In(c); return err }}).supply, store)
	return view, opened(t, b, &view)
}

func openSession[K, V any](t rapid.TB, store SessionStore[K, V]) (view *Session[K, V], host *memory) {
	t.Helper()
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) (err error) { view, err = store.In(c); return err }}).supply, store)
	return view, opened(t, b, &view)
}

func opened[V any](t rapid.TB, b *Builder, view **V) *memory {
	t.Helper()
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	host := newMemory()
	instance, err := top.Bind("app").SubTopologies[0].Instantiate(host)
	if err == nil {
		err = instance.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// row is an entry of a store as a test compares it.
type row struct {
	Key        string
	Start, End int64
	Value      string
	At         int64
}

func rowsOf(t interface{ Fatal(...any) }, seq iter.Seq2[Entry[Windowed[string], string], error]) (all []row) {
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row{e.Key.Key, e.Key.Start, e.Key.End, e.Value, e.Timestamp})
	}
	return all
}

// interleaving are keys of which some are beginnings of others, with the bytes behind them that times begin and end with.
var interleaving = []string{"", "\x00", "a", "a\x00", "a\x00\x00\x00\x00\x00\x00\x00\x01", "aa", "a\x7f", "a\xff", "b"}

// oldestFirst is the order that is promised: of one key, by time.
func oldestFirst(t *rapid.T, what string, got []row, backward bool, at func(row) int64) {
	last := map[string]int64{}
	for _, r := range got {
		before, seen := last[r.Key]
		if seen && (at(r) < before) != backward && at(r) != before {
			t.Fatalf("%s: key %q is not in order: %v", what, r.Key, got)
		}
		last[r.Key] = at(r)
	}
}

func sameRows(t *rapid.T, what string, want, got []row) {
	order := func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	}
	want, got = slices.SortedFunc(slices.Values(want), order), slices.SortedFunc(slices.Values(got), order)
	if d := gocmp.Diff(want, got); d != "" {
		t.Fatalf("%s: %s", what, d)
	}
}

func chosen(all []row, keep func(row) bool) (some []row) {
	for _, r := range all {
		if keep(r) {
			some = append(some, r)
		}
	}
	return some
}

// Every read of a window store equals a loop over a list, for keys that interleave in byte order.
func TestWindowStoreEqualsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := NewWindowStore("w", codec.String, codec.String, 10*ms, time.Hour)
		w, _ := openWindow(t, store)
		key, at := rapid.SampledFrom(interleaving), rapid.Int64Range(0, 300)
		now := map[[2]any]row{}
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			k, start := key.Draw(t, "key"), at.Draw(t, "start")
			if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
				if err := w.Delete(k, start); err != nil {
					t.Fatal(err)
				}
				delete(now, [2]any{k, start})
				continue
			}
			r := row{k, start, start + 10, rapid.StringN(0, 3, -1).Draw(t, "value"), start + 1}
			if err := w.Put(k, start, r.Value, r.At); err != nil {
				t.Fatal(err)
			}
			now[[2]any{k, start}] = r
		}
		var all []row
		for _, r := range now {
			all = append(all, r)
			if v, found, err := w.Fetch(r.Key, r.Start); v != r.Value || !found || err != nil {
				t.Fatal(v, found, err)
			}
		}
		k, k2 := key.Draw(t, "from key"), key.Draw(t, "to key")
		k, k2 = min(k, k2), max(k, k2)
		from, to := at.Draw(t, "from"), at.Draw(t, "to")
		from, to = min(from, to), max(from, to)
		inTime := func(r row) bool { return r.Start >= from && r.Start <= to }
		for _, c := range []struct {
			what    string
			forward iter.Seq2[Entry[Windowed[string], string], error]
			back    iter.Seq2[Entry[Windowed[string], string], error]
			want    []row
		}{
			{"one key", w.FetchBetween(k, from, to), w.BackwardFetchBetween(k, from, to), chosen(all, func(r row) bool { return r.Key == k && inTime(r) })},
			{"keys", w.FetchKeys(k, k2, from, to), w.BackwardFetchKeys(k, k2, from, to), chosen(all, func(r row) bool { return r.Key >= k && r.Key <= k2 && inTime(r) })},
			{"times", w.FetchAll(from, to), w.BackwardFetchAll(from, to), chosen(all, inTime)},
			{"all", w.All(), w.BackwardAll(), all},
		} {
			forward, back := rowsOf(t, c.forward), rowsOf(t, c.back)
			sameRows(t, c.what, c.want, forward)
			oldestFirst(t, c.what, forward, false, func(r row) int64 { return r.Start })
			slices.Reverse(back)
			if d := gocmp.Diff(forward, back); d != "" {
				t.Fatalf("%s backward: %s", c.what, d)
			}
		}
	})
}

// Every read of a session store equals a loop over a list.
func TestSessionStoreEqualsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openSession(t, NewSessionStore("s", codec.String, codec.String, time.Hour))
		key, at := rapid.SampledFrom(interleaving), rapid.Int64Range(0, 300)
		now := map[[3]any]row{}
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			k, start := key.Draw(t, "key"), at.Draw(t, "start")
			end := start + rapid.Int64Range(0, 50).Draw(t, "length")
			id := [3]any{k, start, end}
			if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				if err := s.Remove(Windowed[string]{Key: k, Start: start, End: end}); err != nil {
					t.Fatal(err)
				}
				delete(now, id)
				continue
			}
			r := row{k, start, end, rapid.StringN(0, 3, -1).Draw(t, "value"), end}
			if err := s.Put(Windowed[string]{Key: k, Start: start, End: end}, r.Value, r.At); err != nil {
				t.Fatal(err)
			}
			now[id] = r
		}
		var all []row
		for _, r := range now {
			all = append(all, r)
			if v, at, found, err := s.FetchSession(r.Key, r.Start, r.End); v != r.Value || at != r.At || !found || err != nil {
				t.Fatal(v, found, err)
			}
		}
		k, k2 := key.Draw(t, "from key"), key.Draw(t, "to key")
		k, k2 = min(k, k2), max(k, k2)
		end, start := at.Draw(t, "earliest end"), at.Draw(t, "latest start")
		for _, c := range []struct {
			what    string
			forward iter.Seq2[Entry[Windowed[string], string], error]
			back    iter.Seq2[Entry[Windowed[string], string], error]
			want    []row
		}{
			{"one key", s.Fetch(k), s.BackwardFetch(k), chosen(all, func(r row) bool { return r.Key == k })},
			{"keys", s.FetchKeys(k, k2), s.BackwardFetchKeys(k, k2), chosen(all, func(r row) bool { return r.Key >= k && r.Key <= k2 })},
			{"sessions", s.FindSessions(k, end, start), s.BackwardFindSessions(k, end, start), chosen(all, func(r row) bool { return r.Key == k && r.End >= end && r.Start <= start })},
			{"all", s.All(), s.BackwardAll(), all},
		} {
			forward, back := rowsOf(t, c.forward), rowsOf(t, c.back)
			sameRows(t, c.what, c.want, forward)
			oldestFirst(t, c.what, forward, false, func(r row) int64 { return r.End })
			slices.Reverse(back)
			if d := gocmp.Diff(forward, back); d != "" {
				t.Fatalf("%s backward: %s", c.what, d)
			}
		}
	})
}

// A window is there as long as stream time is less than the retention past its start, to the millisecond; for a session,
// past its end. What is expired is invisible at once, and putting it is dropped and counted.
func TestExpiredWindowsAreInvisibleAtOnce(t *testing.T) {
	w, host := openWindow(t, NewWindowStore("w", codec.String, codec.String, 10*ms, 100*ms))
	s, host2 := openSession(t, NewSessionStore("s", codec.String, codec.String, 100*ms))
	put := func(at int64) {
		t.Helper()
		session := Windowed[string]{Key: "k", Start: max(0, at-5), End: at}
		if err := errors.Join(w.Put("k", at, "v", at), s.Put(session, "v", at)); err != nil {
			t.Fatal(err)
		}
	}
	put(50)
	put(149)
	if n, m := len(rowsOf(t, w.All())), len(rowsOf(t, s.Fetch("k"))); n != 2 || m != 2 {
		t.Fatalf("at 149: %d windows, %d sessions", n, m)
	}
	put(150)
	_, found, err := w.Fetch("k", 50)
	_, _, found2, err2 := s.FetchSession("k", 45, 50)
	if n, m := len(rowsOf(t, w.FetchBetween("k", 0, 200))), len(rowsOf(t, s.All())); n != 2 || m != 2 || found || found2 || err != nil || err2 != nil {
		t.Fatalf("at 150: %d windows, %d sessions, %v %v %v %v", n, m, found, found2, err, err2)
	}
	put(50)
	if host.dropped["expired window"] != 1 || host2.dropped["expired window"] != 1 {
		t.Error(host.dropped, host2.dropped)
	}
	if err := w.Put("k", -1, "v", 1); err == nil {
		t.Error("a window below 0 was put")
	}
	if err := s.Put(Windowed[string]{Key: "k", Start: 7, End: 6}, "v", 1); err == nil {
		t.Error("a session that ends before it starts was put")
	}
}

// H12: an empty value is a value, an absent one is none, in every kind of store.
func TestH12WindowsKeepEmptyApartFromAbsent(t *testing.T) {
	w, _ := openWindow(t, NewWindowStore("w", codec.String, codec.String, 10*ms, time.Hour))
	s, _ := openSession(t, NewSessionStore("s", codec.String, codec.String, time.Hour))
	if err := errors.Join(w.Put("", 0, "", 1), s.Put(Windowed[string]{}, "", 1)); err != nil {
		t.Fatal(err)
	}
	v, found, err := w.Fetch("", 0)
	v2, _, found2, err2 := s.FetchSession("", 0, 0)
	if v != "" || v2 != "" || !found || !found2 || err != nil || err2 != nil {
		t.Fatal(found, found2, err, err2)
	}
	if len(rowsOf(t, w.All())) != 1 || len(rowsOf(t, s.All())) != 1 {
		t.Error("a scan leaves out the empty value")
	}
	if err := errors.Join(w.Delete("", 0), w.Delete("other", 0), s.Remove(Windowed[string]{})); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := w.Fetch("", 0); found || len(rowsOf(t, s.All())) != 0 {
		t.Error("deleted, still there")
	}
}

func lastError[E any](seq iter.Seq2[E, error]) (n int, last error) {
	for _, err := range seq {
		if n++; err != nil {
			last = err
		}
	}
	return n, last
}

// H13: numbers of both signs in a range are in order or refused, the same in every kind of store.
func TestH13RangesAreOrderedOrRefused(t *testing.T) {
	numbers := []int64{math.MinInt64, -2, -1, 0, 1, 2, math.MaxInt64}
	ordered, _ := openStore(t, NewKeyValueStore("kv", codec.OrderedInt64, codec.String))
	w, _ := openWindow(t, NewWindowStore("w", codec.OrderedInt64, codec.String, 10*ms, time.Hour))
	s, _ := openSession(t, NewSessionStore("s", codec.OrderedInt64, codec.String, time.Hour))
	for _, n := range numbers {
		if err := errors.Join(ordered.Put(n, "v", 1), w.Put(n, 0, "v", 1), s.Put(Windowed[int64]{Key: n}, "v", 1)); err != nil {
			t.Fatal(err)
		}
	}
	plain := func(seq iter.Seq2[Entry[int64, string], error]) (keys []int64) {
		for e, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key)
		}
		return keys
	}
	windowed := func(seq iter.Seq2[Entry[Windowed[int64], string], error]) (keys []int64) {
		for e, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key.Key)
		}
		return keys
	}
	middle, backward := numbers[1:5], []int64{1, 0, -1, -2}
	for what, got := range map[string][2][]int64{
		"range": {plain(ordered.Range(-2, 1)), middle}, "reverse": {plain(ordered.ReverseRange(-2, 1)), backward},
		"windows": {windowed(w.FetchKeys(-2, 1, 0, 9)), middle}, "windows backward": {windowed(w.BackwardFetchKeys(-2, 1, 0, 9)), backward},
		"sessions": {windowed(s.FetchKeys(-2, 1)), middle}, "sessions backward": {windowed(s.BackwardFetchKeys(-2, 1)), backward},
		"everything": {plain(ordered.Range(math.MinInt64, math.MaxInt64)), numbers}, "all": {windowed(w.All()), numbers},
		"all windows": {windowed(w.FetchKeys(math.MinInt64, math.MaxInt64, 0, 9)), numbers},
	} {
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
	unordered, _ := openStore(t, NewKeyValueStore("kv", codec.Int64, codec.String))
	w2, _ := openWindow(t, NewWindowStore("w", codec.Int64, codec.String, 10*ms, time.Hour))
	s2, _ := openSession(t, NewSessionStore("s", codec.Int64, codec.String, time.Hour))
	refused := func(what string, n int, err error) {
		var r *RangeError
		var st *StoreError
		if n != 1 || !errors.Is(err, ErrRangeNotOrdered) || !errors.As(err, &r) || !errors.As(err, &st) || r.Codec == "" || r.Problem == "" {
			t.Errorf("%s: %d rows, %v", what, n, err)
		}
	}
	for _, ends := range [][2]int64{{-2, 1}, {1, -2}, {0, 0}} {
		n, err := lastError(unordered.Range(ends[0], ends[1]))
		refused(fmt.Sprint("range", ends), n, err)
		n, err = lastError(w2.FetchKeys(ends[0], ends[1], 0, 9))
		refused(fmt.Sprint("windows", ends), n, err)
		n, err = lastError(s2.BackwardFetchKeys(ends[0], ends[1]))
		refused(fmt.Sprint("sessions", ends), n, err)
	}
	n, err := lastError(ordered.ReverseRange(1, -2))
	refused("ends the wrong way round", n, err)
	n, err = lastError(w.FetchKeys(1, -2, 0, 9))
	refused("keys the wrong way round", n, err)
	n, err = lastError(w.FetchAll(9, 0))
	refused("times the wrong way round", n, err)
	n, err = lastError(s.FetchKeys(1, -2))
	refused("sessions the wrong way round", n, err)
	if n, err := lastError(unordered.All()); n != 0 || err != nil {
		t.Error("all needs no order", n, err)
	}
}

// What the command line and URLs say and what the changelog holds.
func TestWindowedStoresHaveTextAndKafkaStreamsSettings(t *testing.T) {
	b := NewBuilder()
	w := NewWindowStore("w", codec.String, codec.Int64, time.Minute, time.Hour).WithChangelogConfig(map[string]string{"segment.bytes": "1"})
	s := NewSessionStore("s", codec.OrderedInt64, codec.Int64, 2*time.Hour)
	Process(From(b, in), "p", (&probe{}).supply, w, s)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	specs := top.SubTopologies[0].Stores
	want := []map[string]string{
		{"cleanup.policy": "compact,delete", "retention.ms": "90000000", "segment.bytes": "1"},
		{"cleanup.policy": "compact,delete", "retention.ms": "93600000"},
	}
	for i, text := range []string{"a@b@60000", "-7@5..9"} {
		key, err := specs[i].ParseKey(text)
		back, err2 := specs[i].FormatKey(key)
		if back != text || err != nil || err2 != nil {
			t.Errorf("%q: %x, %q, %v, %v", text, key, back, err, err2)
		}
		if _, err := specs[i].ParseKey("no time"); err == nil {
			t.Error("a key without a time was read")
		}
		if _, err := specs[i].FormatKey([]byte("short")); err == nil {
			t.Error("a short key was written")
		}
		if d := gocmp.Diff(want[i], specs[i].ChangelogConfig); d != "" {
			t.Error(d)
		}
	}
	if specs[0].Kind != "window" || specs[1].Kind != "session" || specs[0].WindowSize != time.Minute || specs[1].Retention != 2*time.Hour {
		t.Errorf("%+v", specs)
	}
	if text, err := specs[0].FormatKey([]byte("k\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x02")); text != "k@5#2" || err != nil {
		t.Errorf("a duplicate is %q, %v", text, err)
	}
}
