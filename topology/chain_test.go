package topology_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
	"pgregory.net/rapid"
)

var (
	in      = NewTopic("in", codec.String, codec.String)
	second  = NewTopic("second", codec.String, codec.String)
	out     = NewTopic("out", codec.String, codec.String)
	numbers = NewTopic("numbers", codec.String, codec.Int64)
)

func long(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func TestNullAndEmptyStayApartFromSourceToSink(t *testing.T) {
	b := NewBuilder()
	To(From(b, in), out)
	w := start(t, b, newMemory())
	for _, r := range []record.Raw{{}, {Key: []byte{}, Value: []byte{}}, {Key: []byte("k")}, {Value: []byte("v"), Timestamp: 5}} {
		if err := w.raw("in", &r); err != nil {
			t.Fatal(err)
		}
	}
	want := []sent{
		{NoKey: true, NoValue: true, Partition: -1}, {Partition: -1},
		{Key: "k", NoValue: true, Partition: -1}, {NoKey: true, Value: "v", Timestamp: 5, Partition: -1},
	}
	if d := cmp.Diff(want, w.sent("out")); d != "" {
		t.Fatal(d)
	}
}

func TestEmptyStaysEmptyWithoutScratch(t *testing.T) {
	b := NewBuilder()
	To(From(b, in), out)
	w := start(t, b, newMemory())
	if err := w.raw("in", &record.Raw{Key: []byte{}, Value: []byte{}}); err != nil {
		t.Fatal(err)
	}
	if s := w.sent("out"); s[0].NoKey || s[0].NoValue {
		t.Fatalf("an empty key or value of the first record became null: %+v", s[0])
	}
}

func TestHeadersAndTimestampsGoThrough(t *testing.T) {
	b := NewBuilder()
	To(MapValues(SelectKey(From(b, in), func(r text) string { return r.Value }), strings.ToUpper), out)
	w := start(t, b, newMemory())
	h := record.Headers{{Key: "h", Value: nil}}
	if err := w.raw("in", &record.Raw{Value: []byte("v"), Timestamp: 9, Headers: h}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(record.Raw{Key: []byte("v"), Value: []byte("V"), Timestamp: 9, Headers: h}, w.host.outputs["out"].raw[0]); d != "" {
		t.Fatal(d)
	}
}

func TestDeserializationErrors(t *testing.T) {
	b := NewBuilder()
	To(From(b, NewTopic("longs", codec.Int64, codec.Int64)), NewTopic("sink", codec.Int64, codec.Int64))
	w := start(t, b, newMemory())
	eight := []byte("12345678")
	for part, r := range map[string]record.Raw{"key": {Key: []byte("x"), Value: eight}, "value": {Key: eight, Value: []byte("x")}} {
		err := w.raw("longs", &r)
		var d *DeserializationError
		var c *codec.Error
		if !errors.As(err, &d) || d.Part != part || d.Topic != "longs" || d.Source == "" || !errors.As(err, &c) {
			t.Errorf("%s: got %v", part, err)
		}
	}
	if _, err := w.instances[0].Source("other"); err == nil {
		t.Error("a topic that is not read must be an error")
	}
}

func TestTimestampExtractor(t *testing.T) {
	b := NewBuilder()
	To(From(b, in.WithTimestamp(func(r text) int64 { return int64(len(r.Value)) - 1 })), out)
	w := start(t, b, newMemory())
	w.feed("in", "k", "four", 99)
	w.feed("in", "k", "", 99)
	if s := w.sent("out"); len(s) != 1 || s[0].Timestamp != 3 || w.host.dropped["negative timestamp"] != 1 {
		t.Fatalf("%+v, dropped %v", s, w.host.dropped)
	}
}

func TestPartitioner(t *testing.T) {
	b := NewBuilder()
	To(From(b, in), out, WithPartitioner(func(key, value string, n int32) int32 { return int32(len(key)) }))
	w := start(t, b, newMemory())
	w.feed("in", "abc", "", 0)
	if s := w.sent("out"); s[0].Partition != 3 {
		t.Fatalf("%+v", s)
	}
	err := w.raw("in", &record.Raw{Key: []byte("abcd")})
	var e *SinkError
	if !errors.As(err, &e) || e.Topic != "out" || !strings.Contains(err.Error(), "partition 4 of 4") {
		t.Fatalf("a partition that is not there: %v", err)
	}
}

// A sink's error passes through user code twice here. Named as the processor's it would look like a bug of the user, and
// the thread would restart instead of giving up the fenced producer.
func TestSinkErrorIsNotTheUsersError(t *testing.T) {
	b := NewBuilder()
	f := FlatMap(From(b, in), func(r text, emit func(text) error) error { return fmt.Errorf("emit: %w", emit(r)) })
	To(Process(f, "p", func() Processor[string, string, string, string] { return &probe{} }), out)
	host := newMemory()
	w := start(t, b, host)
	host.sendError = errBroker
	err := w.raw("in", &record.Raw{})
	var s *SinkError
	var p *ProcessorError
	if !errors.As(err, &s) || !errors.Is(err, errBroker) || errors.As(err, &p) {
		t.Fatalf("%v", err)
	}
}

func TestUserErrorsAreWrappedOnceAndNamed(t *testing.T) {
	boom := errors.New("boom")
	for name, wire := range map[string]func(Stream[string, string]) Stream[string, string]{
		"map-0000000001": func(s Stream[string, string]) Stream[string, string] {
			return Map(s, func(r text) (text, error) { return r, boom })
		},
		"flat-map-0000000001": func(s Stream[string, string]) Stream[string, string] {
			return FlatMap(s, func(r text, _ func(text) error) error { return boom })
		},
		"mine": func(s Stream[string, string]) Stream[string, string] {
			return Process(s, "mine", func() Processor[string, string, string, string] { return &probe{fail: boom} })
		},
		"reduce-0000000001": func(s Stream[string, string]) Stream[string, string] {
			return Reduce(s, NewKeyValueStore("r", codec.String, codec.String), func(string, string) (string, error) { return "", boom })
		},
	} {
		b := NewBuilder()
		Peek(wire(From(b, in)), func(text) {})
		w := start(t, b, newMemory())
		r := &record.Raw{Key: []byte("k"), Value: []byte("v")}
		err := errors.Join(w.raw("in", r), w.raw("in", r)) // reduce calls the user's code from the second value on
		var p *ProcessorError
		if !errors.As(err, &p) || p.Node != name || p.Cause != boom {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPanicsGoThrough(t *testing.T) {
	b := NewBuilder()
	Peek(From(b, in), func(text) { panic("user") })
	w := start(t, b, newMemory())
	defer func() {
		if recover() != "user" {
			t.Error("the panic must reach the task as it is")
		}
	}()
	w.feed("in", "", "", 0)
}

// Operators against the same thing on slices.
func TestOperatorsEqualTheirModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := NewBuilder()
		s := From(b, in)
		model := func(r text) []text { return []text{r} }
		for range rapid.IntRange(1, 6).Draw(rt, "operators") {
			s, model = step(rapid.IntRange(0, 6).Draw(rt, "operator"), s, model)
		}
		To(s, out)
		w := start(t, b, newMemory())
		var want []sent
		for i, v := range rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,4}`), 0, 12).Draw(rt, "values") {
			w.feed("in", "k", v, int64(i))
			for _, r := range model(record.New("k", v, int64(i))) {
				want = append(want, sent{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Partition: -1})
			}
		}
		if d := cmp.Diff(want, w.sent("out")); d != "" {
			rt.Fatal(d)
		}
	})
}

func step(n int, s Stream[string, string], model func(text) []text) (Stream[string, string], func(text) []text) {
	each := func(f func(text) []text) func(text) []text {
		return func(r text) (all []text) {
			for _, m := range model(r) {
				all = append(all, f(m)...)
			}
			return all
		}
	}
	split := func(r text) (all []text) {
		for _, c := range r.Value {
			all = append(all, record.New(r.Key, string(c), r.Timestamp))
		}
		return all
	}
	switch n {
	case 0:
		f := func(r text) (text, error) { return record.New(r.Value, r.Key+r.Value, r.Timestamp+1), nil }
		return Map(s, f), each(func(r text) []text { o, _ := f(r); return []text{o} })
	case 1:
		return MapValues(s, strings.ToUpper), each(func(r text) []text { return []text{record.WithValue(r, strings.ToUpper(r.Value))} })
	case 2:
		return FlatMap(s, func(r text, emit func(text) error) error {
			for _, o := range split(r) {
				if err := emit(o); err != nil {
					return err
				}
			}
			return nil
		}), each(split)
	case 3:
		keep := func(r text) bool { return len(r.Value)%2 == 0 }
		return Filter(s, keep), each(func(r text) []text {
			if keep(r) {
				return []text{r}
			}
			return nil
		})
	case 4:
		f := func(r text) string { return r.Key + "!" }
		return SelectKey(s, f), each(func(r text) []text { return []text{record.WithKey(r, f(r))} })
	case 5:
		return Peek(s, func(text) {}), model
	}
	// Children take a record in the order in which they were added, and an argument is added before its call.
	return Merge(s, MapValues(s, func(v string) string { return v + v })), each(func(r text) []text {
		return []text{record.WithValue(r, r.Value+r.Value), r}
	})
}

func TestAbsentValueStaysAbsentInMapValues(t *testing.T) {
	b := NewBuilder()
	To(MapValues(From(b, in), func(string) string { return "called" }), out)
	w := start(t, b, newMemory())
	if err := w.raw("in", &record.Raw{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	if s := w.sent("out"); !s[0].NoValue {
		t.Fatalf("%+v", s)
	}
}

func TestTwoTopicsMerge(t *testing.T) {
	b := NewBuilder()
	To(Merge(From(b, in), From(b, second)), out)
	w := start(t, b, newMemory())
	w.feed("in", "a", "1", 0)
	w.feed("second", "b", "2", 0)
	var keys []string
	for _, s := range w.sent("out") {
		keys = append(keys, s.Key)
	}
	if !slices.Equal(keys, []string{"a", "b"}) {
		t.Fatal(keys)
	}
}
