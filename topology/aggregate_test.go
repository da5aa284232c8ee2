package topology_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
	"pgregory.net/rapid"
)

var strs = NewKeyValueStore("strs", codec.String, codec.String)

func TestCountEmitsOncePerKeyPerFlush(t *testing.T) {
	b := NewBuilder()
	To(Count(From(b, in), counts), numbers)
	w := start(t, b, newMemory())
	w.feed("in", "b", "", 5)
	w.feed("in", "a", "", 2)
	w.feed("in", "b", "", 3) // late: the result keeps the higher timestamp
	if s := w.sent("numbers"); len(s) != 0 {
		t.Fatalf("sent before the flush: %+v", s)
	}
	w.settle()
	want := []sent{{Key: "a", Value: long(1), Timestamp: 2, Partition: -1}, {Key: "b", Value: long(2), Timestamp: 5, Partition: -1}}
	if d := cmp.Diff(want, w.sent("numbers")); d != "" {
		t.Fatal(d)
	}
	w.settle()
	if s := w.sent("numbers"); len(s) != 0 {
		t.Fatalf("nothing changed, sent %+v", s)
	}
}

func TestEveryUpdateEmitsAtOnce(t *testing.T) {
	b := NewBuilder()
	To(Count(From(b, in), counts, EveryUpdate()), numbers)
	w := start(t, b, newMemory())
	w.feed("in", "k", "", 5)
	w.feed("in", "k", "", 3)
	want := []sent{{Key: "k", Value: long(1), Timestamp: 5, Partition: -1}, {Key: "k", Value: long(2), Timestamp: 5, Partition: -1}}
	if d := cmp.Diff(want, w.sent("numbers")); d != "" {
		t.Fatal(d)
	}
	w.settle()
	if s := w.sent("numbers"); len(s) != 0 {
		t.Fatalf("the flush repeats %+v", s)
	}
}

func TestNullKeyAndNullValueAreDroppedAndCounted(t *testing.T) {
	concat := func(a, v string) (string, error) { return a + v, nil }
	for name, wire := range map[string]func(Stream[string, string]){
		"count":  func(s Stream[string, string]) { Count(s, counts) },
		"reduce": func(s Stream[string, string]) { Reduce(s, strs, concat) },
		"aggregate": func(s Stream[string, string]) {
			Aggregate(s, strs, func() string { return "" }, func(_, v, a string) (string, error) { return a + v, nil })
		},
	} {
		b := NewBuilder()
		wire(From(b, in))
		w := start(t, b, newMemory())
		if err := errors.Join(w.raw("in", &record.Raw{Value: []byte("v")}), w.raw("in", &record.Raw{Key: []byte("k")})); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]int{"null key": 1, "null value": 1}, w.host.dropped); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		for _, s := range w.host.stores {
			if len(s.cells) != 0 {
				t.Errorf("%s: a dropped record reached the store", name)
			}
		}
	}
}

// Chained: how many keys have each count. The second aggregation sees what the first flushes in the same flush.
func TestChainedAggregationsFlushInOrder(t *testing.T) {
	b := NewBuilder()
	first := Count(From(b, in), counts)
	longest := Reduce(SelectKey(first, func(count) string { return "max" }), NewKeyValueStore("max", codec.String, codec.Int64),
		func(a, v int64) (int64, error) { return max(a, v), nil })
	To(longest, numbers)
	w := start(t, b, newMemory())
	for _, k := range []string{"a", "b", "b", "b", "a"} {
		w.feed("in", k, "", 0)
	}
	if err := w.instances[0].Flush(); err != nil {
		t.Fatal(err)
	}
	if s := w.sent("numbers"); len(s) != 1 || s[0].Value != long(3) {
		t.Fatalf("%+v", s)
	}
}

// A reducer that returns a part of the old value must not see it change under its hands: the store writes the new value
// over the old one's bytes before the record is forwarded.
func TestStringsFromAStoreAreTheCallersOwn(t *testing.T) {
	b := NewBuilder()
	var seen []string
	tail := Reduce(From(b, in), strs, func(a, _ string) (string, error) { return a[1:], nil }, EveryUpdate())
	Peek(tail, func(r text) { seen = append(seen, r.Value) })
	w := start(t, b, newMemory())
	for range 3 {
		w.feed("in", "k", "abcd", 0)
	}
	if want := []string{"abcd", "bcd", "cd"}; !slices.Equal(seen, want) {
		t.Fatalf("%q, want %q", seen, want)
	}
}

func TestAggregationsEqualTheirModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := NewBuilder()
		s := From(b, in)
		Count(s, counts)
		Reduce(s, strs, func(a, v string) (string, error) { return a + v, nil })
		lengths := NewKeyValueStore("lengths", codec.String, codec.Int64)
		Aggregate(s, lengths, func() int64 { return 100 }, func(_, v string, a int64) (int64, error) { return a + int64(len(v)), nil })
		w := start(t, b, newMemory())
		n, joined, total := map[string]int64{}, map[string]string{}, map[string]int64{}
		for i := range rapid.IntRange(0, 30).Draw(rt, "records") {
			k := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "key")
			v := rapid.StringMatching(`[x-z]{0,3}`).Draw(rt, "value")
			w.feed("in", k, v, int64(i))
			if n[k] == 0 {
				total[k] = 100
			}
			n[k]++
			joined[k] += v
			total[k] += int64(len(v))
			if rapid.Bool().Draw(rt, "flush") {
				w.settle()
			}
		}
		for k := range n {
			want := []string{long(n[k]), joined[k], long(total[k])}
			for i, store := range []string{"counts", "strs", "lengths"} {
				if got := string(w.host.stores[store].cells[k].Value); got != want[i] {
					rt.Fatalf("%s[%q] = %q, want %q", store, k, got, want[i])
				}
			}
		}
	})
}

func TestStoreErrorsNameTheStore(t *testing.T) {
	b := NewBuilder()
	Count(From(b, in), counts)
	host := newMemory()
	w := start(t, b, host)
	r := &record.Raw{Key: []byte("k"), Value: []byte{}}
	if err := w.raw("in", r); err != nil {
		t.Fatal(err)
	}
	host.stores["counts"].cells["k"].Value = []byte("bad")
	err := w.raw("in", r)
	var s *StoreError
	var c *codec.Error
	if !errors.As(err, &s) || s.Store != "counts" || !errors.As(err, &c) {
		t.Fatalf("bytes that are no count: %v", err)
	}
	host.stores["counts"].err = errBroker
	if err := w.raw("in", r); !errors.As(err, &s) || !errors.Is(err, errBroker) {
		t.Fatalf("an engine's error: %v", err)
	}
	host.missing = true
	if err := bare(t, b, host).instances[0].Init(); !errors.As(err, &s) {
		t.Fatalf("a store that the task lacks: %v", err)
	}
}

// wordCount runs a topology that counts words of two lines and returns the last count of each word.
func wordCount(t *testing.T, b *Builder) map[string]string {
	w := start(t, b, newMemory())
	w.feed("lines", "", "The quick the", 1)
	w.feed("lines", "", "lazy QUICK the", 2)
	w.settle()
	last := map[string]string{}
	for _, s := range w.sent("word-counts") {
		last[s.Key] = s.Value
	}
	return last
}

func splitWords(r text, emit func(text) error) error {
	for _, word := range strings.Fields(strings.ToLower(r.Value)) {
		if err := emit(record.New(word, word, r.Timestamp)); err != nil {
			return err
		}
	}
	return nil
}

func TestWordCountWithOperatorsAndByHandAgree(t *testing.T) {
	want := map[string]string{"the": long(3), "quick": long(2), "lazy": long(1)}
	operators, hand := NewBuilder(), NewBuilder()
	To(Count(Through(FlatMap(From(operators, lines), splitWords), words), counts), output)
	supply := func() Processor[string, string, string, int64] { return &counter{} }
	To(Process(Through(FlatMap(From(hand, lines), splitWords), words), "counter", supply, counts), output)
	for name, b := range map[string]*Builder{"operators": operators, "hand": hand} {
		if got := wordCount(t, b); !maps.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
