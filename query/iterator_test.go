package query_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

func TestIteratorWalksAsAScanDoes(t *testing.T) {
	for _, opts := range [][]query.Option{nil, {query.Reverse()}} {
		m := filled(3, 2, 11)
		var want, got []string
		for e, err := range query.All(t.Context(), m, counts, opts...) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, e.Key)
		}
		it := query.Iterate(t.Context(), m, counts, query.Everything[string](), opts...)
		for {
			more, err := it.HasNext()
			if again, _ := it.HasNext(); err != nil || again != more {
				t.Fatal("HasNext must not move:", err)
			}
			if !more {
				break
			}
			key, err := it.PeekNextKey()
			e, err2 := it.Next()
			if err != nil || err2 != nil || key != e.Key {
				t.Fatal(key, e, err, err2)
			}
			got = append(got, e.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 11 {
			t.Fatal(diff)
		}
		if _, err := it.Next(); !errors.Is(err, query.ErrIteratorClosed) {
			t.Errorf("past the end: %v", err)
		}
		it.Close()
		it.Close()
		_, err1 := it.HasNext()
		_, err2 := it.Next()
		_, err3 := it.PeekNextKey()
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, query.ErrIteratorClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
}

// A failure stays what it was: an iterator does not go on behind it, and does not look like one that has ended.
func TestIteratorKeepsItsFailure(t *testing.T) {
	m := filled(1, 2, 9)
	m.before = func(query.Question) *query.Failure {
		if len(m.asked) == 3 {
			return query.New(query.StateStoreMigrated, "counts", 0)
		}
		return nil
	}
	it := query.Iterate(t.Context(), m, counts, query.Everything[string]())
	n := 0
	var first error
	for first == nil {
		if _, first = it.Next(); first == nil {
			n++
		}
	}
	for range 3 {
		more, err := it.HasNext()
		if more || !errors.Is(err, query.ErrStateStoreMigrated) || n != 4 {
			t.Fatalf("%v %v after %d", more, err, n)
		}
	}
}

// A scan that is cut at any question, in any direction, and resumed until it is whole delivers each entry once, in order.
func TestResumeLeavesNoGapAndRepeatsNothing(t *testing.T) {
	for _, opts := range [][]query.Option{nil, {query.Reverse()}, {query.Partition(1)}} {
		var want []string
		for e := range query.All(t.Context(), filled(3, 2, 20), counts, opts...) {
			want = append(want, e.Key)
		}
		for every := 2; every < 6; every++ {
			m := filled(3, 2, 20)
			cuts := 0
			m.before = func(query.Question) *query.Failure {
				if len(m.asked)%every == 0 {
					cuts++
					return query.New(query.StateStoreMigrated, "counts", query.NoPartition)
				}
				return nil
			}
			var got []string
			for resume := opts; ; {
				var f *query.Failure
				for e, err := range query.All(t.Context(), m, counts, resume...) {
					if err != nil {
						if !errors.As(err, &f) {
							t.Fatal(err)
						}
						break
					}
					got = append(got, e.Key)
				}
				if f == nil {
					break
				}
				resume = append(slices.Clip(opts), f.Resume())
			}
			if diff := cmp.Diff(want, got); diff != "" || cuts == 0 {
				t.Fatalf("cut at every %d. question, %d cuts:\n%s", every, cuts, diff)
			}
		}
	}
}

func TestSpans(t *testing.T) {
	m := filled(1, 2, 9)
	m.put("v", 0)
	for _, c := range []struct {
		name string
		span query.Span[string]
		want []string
	}{
		{"between", query.Between("w03", "w05"), []string{"w03", "w04", "w05"}},
		{"from", query.From("w07"), []string{"w07", "w08"}},
		{"up to", query.UpTo("w01"), []string{"v", "w00", "w01"}},
		{"prefix", query.Prefixed[string]([]byte("v")), []string{"v"}},
		{"prefix of nothing", query.Prefixed[string]([]byte("x")), nil},
		{"one", query.Between("w03", "w03"), []string{"w03"}},
	} {
		var got []string
		for e, err := range query.Scan(t.Context(), m, counts, c.span) {
			if err != nil {
				t.Fatal(c.name, err)
			}
			got = append(got, e.Key)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
	if end := query.PrefixEnd([]byte{1, 0xff, 0xff}); !slices.Equal(end, []byte{2}) {
		t.Errorf("%x", end)
	}
	if query.PrefixEnd([]byte{0xff}) != nil || query.PrefixEnd(nil) != nil {
		t.Error("a prefix after which there is nothing has no end")
	}
}

// H13: a range over numbers needs a codec that keeps their order. Under another one it is refused, whatever the bounds are.
func TestRangeNeedsAnOrderedCodec(t *testing.T) {
	ordered := topology.NewKeyValueStore("counts", codec.OrderedInt64, codec.Int64)
	plain := topology.NewKeyValueStore("counts", codec.Int64, codec.Int64)
	m := newMemory(1, 2)
	numbers := []int64{-1 << 63, -2, -1, 0, 1, 2, 1<<63 - 1}
	for _, n := range numbers {
		key, _ := codec.OrderedInt64.Encode(nil, n)
		value, _ := codec.Int64.Encode(nil, n)
		m.parts[0][string(key)] = value
	}
	scan := func(span query.Span[int64], opts ...query.Option) (got []int64) {
		for e, err := range query.Scan(t.Context(), m, ordered, span, opts...) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		return got
	}
	for _, c := range []struct {
		got, want []int64
	}{
		{scan(query.Between[int64](-2, 1)), numbers[1:5]},
		{scan(query.Between[int64](-1<<63, 1<<63-1)), numbers},
		{scan(query.From[int64](1)), numbers[4:]},
		{scan(query.UpTo[int64](-1)), numbers[:3]},
		{scan(query.Between[int64](-2, 1), query.Reverse()), []int64{1, 0, -1, -2}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
	for _, span := range []query.Span[int64]{query.Between[int64](-2, 1), query.Between[int64](1, -2), query.From[int64](3), query.UpTo[int64](3)} {
		n := 0
		for _, err := range query.Scan(t.Context(), m, plain, span) {
			if n++; !errors.Is(err, query.ErrInvalidQuery) || !errors.Is(err, query.ErrFatal) {
				t.Fatal(err)
			}
		}
		if n != 1 {
			t.Fatalf("%d yields", n)
		}
	}
}

// A mistake that the client sees itself is told after the ones that are worse, as if the store had seen it.
func TestMistakesOfTheClientKeepTheOrder(t *testing.T) {
	plain := topology.NewKeyValueStore("counts", codec.Int64, codec.Int64)
	for _, worse := range []query.Kind{query.UnknownStateStore, query.StateStoreTypeMismatch, query.StreamThreadNotStarted} {
		m := newMemory(1, 2)
		m.before = func(query.Question) *query.Failure { return query.New(worse, "counts", 0) }
		want := min(worse, query.InvalidQuery)
		for _, err := range query.Range(t.Context(), m, plain, 1, 2) {
			if !errors.Is(err, want.Sentinel()) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
}

// Every step asks whether the store still answers as soon as anything was published, and not before.
func TestScanValidatesEveryStep(t *testing.T) {
	m := &published{memory: filled(1, 5, 9)}
	it := query.Iterate(t.Context(), m, counts, query.Everything[string]())
	for range 2 {
		if _, err := it.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.asked) != 1 {
		t.Fatalf("%d questions for two entries of one page", len(m.asked))
	}
	m.count.Add(1)
	if _, err := it.PeekNextKey(); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.asked[1].(*querypb.Open); !ok || len(m.asked) != 2 || m.asked[1].GetAbout().Epoch != 10 {
		t.Fatalf("a change was not followed by an Open of the lease: %v", m.asked)
	}
	steps := map[string]func() error{
		"HasNext":     func() error { _, err := it.HasNext(); return err },
		"PeekNextKey": func() error { _, err := it.PeekNextKey(); return err },
		"Next":        func() error { _, err := it.Next(); return err },
	}
	for name, step := range steps {
		it = query.Iterate(t.Context(), m, counts, query.Everything[string]())
		if _, err := it.Next(); err != nil {
			t.Fatal(err)
		}
		m.leases[0]++ // the store is opened anew
		m.count.Add(1)
		var f *query.Failure
		if err := step(); !errors.As(err, &f) || f.Kind != query.StateStoreMigrated || string(f.LastKey) != "w00" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleFailure_Resume() {
	m := filled(1, 2, 6)
	m.before = func(query.Question) *query.Failure {
		if len(m.asked) == 3 {
			return query.New(query.StateStoreMigrated, "counts", 0)
		}
		return nil
	}
	var again []query.Option
	for range 2 {
		for e, err := range query.All(ctx, m, counts, again...) {
			var f *query.Failure
			if errors.As(err, &f) {
				again = []query.Option{f.Resume()}
				break
			}
			fmt.Print(e.Key, " ")
		}
	}
	// Output: w00 w01 w02 w03 w04 w05
}
