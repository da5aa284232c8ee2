package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	perMinute = topology.NewWindowStore("counts", codec.String, codec.Int64, time.Minute, time.Hour)
	visits    = topology.NewSessionStore("counts", codec.String, codec.Int64, time.Hour)
)

// windowsOf has windows of "a" and "b", one a minute, in one partition.
func windowsOf(page, n int) *memory {
	m := newMemory(1, page)
	for i := range n {
		value, _ := codec.Int64.Encode(nil, int64(i))
		for _, key := range []string{"a", "b"} {
			m.parts[0][string(record.AppendWindowSuffix([]byte(key), int64(i)*60_000, 0))] = value
		}
	}
	return m
}

// What each read says to the store, word for word.
func TestQuestionsAboutWindows(t *testing.T) {
	m := newMemory(1, 9)
	ctx := t.Context()
	one, two := int64(1), int64(2)
	a, b := []byte("a"), []byte("b")
	drain := func(scan func(func(query.Entry[record.Windowed[string], int64], error) bool)) {
		for _, err := range scan {
			if err != nil {
				t.Error(err)
			}
		}
	}
	drain(query.FetchRange(ctx, m, perMinute, "a", 1, 2))
	drain(query.FetchKeys(ctx, m, perMinute, "a", "b", 1, 2))
	drain(query.FetchAll(ctx, m, perMinute, 1, 2, query.Reverse()))
	drain(query.AllWindows(ctx, m, perMinute))
	drain(query.FetchSessions(ctx, m, visits, ""))
	drain(query.FetchSessionKeys(ctx, m, visits, "a", "b"))
	drain(query.FindSessions(ctx, m, visits, "a", 2, 1))
	drain(query.AllSessions(ctx, m, visits))
	for i, want := range []*querypb.Windows{
		{KeyFrom: a, KeyTo: a, StartFrom: &one, StartTo: &two},
		{KeyFrom: a, KeyTo: b, StartFrom: &one, StartTo: &two},
		{StartFrom: &one, StartTo: &two},
		{},
		{KeyFrom: []byte{}, KeyTo: []byte{}},
		{KeyFrom: a, KeyTo: b},
		{KeyFrom: a, KeyTo: a, EndFrom: &two, StartTo: &one},
		{},
	} {
		q := m.asked[i].(*querypb.Range)
		kind := "window"
		if i > 3 {
			kind = "session"
		}
		if d := cmp.Diff(want.String(), q.Windows.String()); d != "" || q.About.Kind != kind || q.About.KeyCodec != "string" || q.From != nil || q.To != nil || q.Reverse != (i == 2) {
			t.Errorf("question %d: %v %s", i, q, d)
		}
		if (q.Windows.KeyFrom == nil) != (want.KeyFrom == nil) {
			t.Errorf("question %d: the empty key became none", i)
		}
	}
}

// H13 for windows: bounds the wrong way round, keys without an order, and starts that no window has are refused.
func TestWindowQuestionsAreChecked(t *testing.T) {
	ctx, m := t.Context(), newMemory(1, 9)
	unordered := topology.NewWindowStore("counts", codec.Int64, codec.Int64, time.Minute, time.Hour)
	_, _, err1 := query.Fetch(ctx, m, perMinute, "a", -1)
	err2 := ended(query.FetchRange(ctx, m, perMinute, "a", 2, 1))
	err3 := ended(query.FetchKeys(ctx, m, unordered, 1, 2, 0, 9))
	_, err4 := query.IterateWindows(ctx, m, unordered, query.WindowsBetween[int64](1, 2, 0, 9)).Next()
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, query.ErrInvalidQuery) {
			t.Errorf("%d: %v", i+1, err)
		}
	}
	for _, err := range []error{
		ended(query.FetchRange(ctx, m, perMinute, "a", math.MinInt64, math.MaxInt64)),
		ended(query.FetchRange(ctx, m, unordered, 1, -5, -1)),
		ended(query.FetchAll(ctx, m, unordered, 0, 9)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func ended[E any](scan func(func(E, error) bool)) (err error) {
	for _, err = range scan {
	}
	return err
}

// Pages without entries that say how far the store has looked are turned; one that gets nowhere is refused.
func TestEmptyPagesOfWindowsGoOn(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		m := &sparse{memory: windowsOf(1, 9)}
		var opts []query.Option
		if reverse {
			opts = append(opts, query.Reverse())
		}
		n := 0
		for e, err := range query.AllWindows(t.Context(), m, perMinute, opts...) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Key.Key != "b" || e.Key.End != e.Key.Start+60_000 {
				t.Fatal(e)
			}
			n++
		}
		if n != 9 || m.empty != 9 {
			t.Fatalf("reverse %v: %d windows, %d empty pages", reverse, n, m.empty)
		}
		m = &sparse{memory: windowsOf(1, 9), stuck: true}
		var f *query.Failure
		if err := ended(query.AllWindows(t.Context(), m, perMinute, opts...)); !errors.As(err, &f) || f.Kind != query.StoreFailure {
			t.Fatalf("reverse %v: %v", reverse, err)
		}
	}
}

// A scan that is cut carries the last window that it delivered, not how far the store had looked.
func TestWindowScanResumesBehindWhatItDelivered(t *testing.T) {
	for cut := 2; cut < 12; cut++ {
		m := &sparse{memory: windowsOf(1, 9)}
		m.before = func(query.Question) *query.Failure {
			if len(m.asked) == cut {
				return query.New(query.Overloaded, "counts", 0)
			}
			return nil
		}
		var starts []int64
		var opts []query.Option
		for range 2 {
			var f *query.Failure
			for e, err := range query.AllWindows(t.Context(), m, perMinute, opts...) {
				if errors.As(err, &f) {
					opts = []query.Option{f.Resume()}
					break
				}
				starts = append(starts, e.Key.Start/60_000)
			}
			if f == nil {
				break
			}
		}
		if d := cmp.Diff([]int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, starts); d != "" {
			t.Fatalf("cut at question %d: %s", cut, d)
		}
	}
}

// sparse leaves out the windows of "a", and pages of them are empty.
type sparse struct {
	*memory
	empty int
	stuck bool
}

func (s *sparse) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	r, err := s.memory.Ask(ctx, q)
	page := r.GetPage()
	if err != nil || page == nil || len(page.Entries) == 0 || page.Entries[0].Key[0] != 'a' {
		return r, err
	}
	s.empty++
	page.Resume, page.Entries, page.More = page.Entries[0].Key, nil, true
	if rq := q.(*querypb.Range); s.stuck && rq.Resume != nil {
		page.Resume = bytes.Clone(rq.Resume)
	}
	return r, nil
}

func TestViewReadsWindows(t *testing.T) {
	m := windowsOf(2, 3)
	v, err := query.Open(t.Context(), m, perMinute)
	if err != nil {
		t.Fatal(err)
	}
	if n, found, err := v.Fetch(t.Context(), "b", 120_000); n != 2 || !found || err != nil {
		t.Fatal(n, found, err)
	}
	n := 0
	for it := v.IterateWindows(t.Context(), query.EveryWindow[string]()); ; n++ {
		if more, err := it.HasNext(); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
		key, err := it.PeekNextKey()
		if e, err2 := it.Next(); err != nil || err2 != nil || key != e.Key || e.Value != e.Key.Start/60_000 {
			t.Fatal(key, e, err, err2)
		}
	}
	if n != 6 {
		t.Fatal(n)
	}
	m.leases[0]++
	if err := ended(v.FetchRange(t.Context(), "a", 0, 1)); !errors.Is(err, query.ErrStateStoreMigrated) {
		t.Fatal("the View's lease has ended:", err)
	}
}

func ExampleFetchRange() {
	client := &sparse{memory: windowsOf(10, 3)} // usually a node; here three windows of a minute
	for e, err := range query.FetchRange(ctx, client, perMinute, "b", 0, 120_000) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %d-%d: %d\n", e.Key.Key, e.Key.Start, e.Key.End, e.Value)
	}
	// Output:
	// b 0-60000: 0
	// b 60000-120000: 1
	// b 120000-180000: 2
}

// A window store that is read as a key-value store is told by what it is read, in one sentence.
func TestAWindowHandleIsToldWhatReadsIt(t *testing.T) {
	m := newMemory(1, 9)
	_, _, err1 := query.Get(t.Context(), m, perMinute, "a")
	_, err2 := query.GetMany(t.Context(), m, perMinute, []string{"a"})
	const want = `query: StateStoreTypeMismatch: store "per-minute": the store is not of the type that was asked for (the handle is of a store of kind window; Fetch and the functions beside it read its windows): read it as what the topology declares it to be`
	for _, err := range []error{err1, err2} {
		if !errors.Is(err, query.ErrStateStoreTypeMismatch) || err.Error() != strings.Replace(want, "per-minute", perMinute.StoreName(), 1) {
			t.Error(err)
		}
	}
	if n, err := query.Count(t.Context(), m, perMinute); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := query.Open(t.Context(), m, perMinute); err != nil {
		t.Error(err)
	}
}

// counting is a client that does not know yet how many partitions there are.
type counting struct{ *memory }

func (counting) Partitions(_ context.Context, store string) (int32, error) {
	return 0, query.New(query.StreamThreadNotStarted, store, query.NoPartition)
}

// A caller that has named no partition is told of none while nobody knows how many there are.
func TestNoPartitionIsNamedBeforeThereAreAny(t *testing.T) {
	m := newMemory(1, 9)
	m.before = func(q query.Question) *query.Failure {
		return query.New(query.StreamThreadNotStarted, "counts", q.GetAbout().GetPartition())
	}
	_, _, err1 := query.Get(t.Context(), counting{m}, counts, "a")
	_, err2 := query.Open(t.Context(), counting{m}, counts)
	_, _, err3 := query.Get(t.Context(), counting{m}, counts, "a", query.Partition(3))
	for i, want := range []int32{query.NoPartition, query.NoPartition, 3} {
		if f := (*query.Failure)(nil); !errors.As([]error{err1, err2, err3}[i], &f) || f.Partition != want || f.Kind != query.StreamThreadNotStarted {
			t.Errorf("%d: %v", i, f)
		}
	}
}
