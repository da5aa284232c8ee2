package codec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace-io/millrace/record"
	"pgregory.net/rapid"
)

type windowed = record.Windowed[string]

var (
	timeWindows = rapid.Custom(func(t *rapid.T) windowed {
		start := rapid.Int64Range(0, math.MaxInt64-60_000).Draw(t, "start")
		return windowed{Key: rapid.String().Draw(t, "key"), Start: start, End: start + 60_000}
	})
	sessionWindows = rapid.Custom(func(t *rapid.T) windowed {
		start := rapid.Int64Min(0).Draw(t, "start")
		return windowed{Key: rapid.String().Draw(t, "key"), Start: start, End: rapid.Int64Min(start).Draw(t, "end")}
	})
	instants = rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(0, rapid.Int64().Draw(t, "ns")).UTC() })
)

func TestWindowedRoundTrips(t *testing.T) {
	roundTrip(t, TimeWindowed(String, time.Minute), timeWindows)
	roundTrip(t, SessionWindowed(String), sessionWindows)
	roundTrip(t, OrderedInt32, rapid.Int32())
	roundTrip(t, OrderedFloat64, rapid.Float64())
	roundTrip(t, Time, instants)
}

// The bytes of Kafka Streams' windowed serdes.
func TestWindowedBytesOfJava(t *testing.T) {
	w, err1 := TimeWindowed(String, time.Second).Encode(nil, windowed{Key: "k", Start: 2_000, End: 3_000})
	s, err2 := SessionWindowed(String).Encode(nil, windowed{Key: "k", Start: 1, End: 2})
	if got := fmt.Sprintf("%x %x %v %v", w, s, err1, err2); got != "6b00000000000007d0 6b00000000000000020000000000000001 <nil> <nil>" {
		t.Error(got)
	}
	if f := SessionWindowed(String).FormatText(windowed{Key: "a@b", Start: 1, End: 2}); f != "a@b@1..2" {
		t.Error(f)
	}
}

func TestWindowedRefusals(t *testing.T) {
	minute, session := TimeWindowed(Int64, time.Minute), SessionWindowed(String)
	_, e1 := TimeWindowed(String, time.Minute).Encode(nil, windowed{Key: "k", Start: 0, End: 1})
	_, e2 := minute.Decode([]byte("short"))
	_, e3 := minute.Decode(bytes.Repeat([]byte{0xff}, 16))
	_, e4 := minute.ParseText("7@x")
	_, e5 := minute.ParseText("seven@0")
	_, e6 := session.Encode(nil, windowed{Key: "k", Start: 2, End: 1})
	_, e7 := session.Decode(make([]byte, 15))
	_, e8 := session.ParseText("k@1")
	_, e9 := Time.Encode(nil, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8, e9} {
		if _, ok := err.(*Error); !ok {
			t.Errorf("%d: want a *codec.Error, got %v", i+1, err)
		}
	}
}

// H13: whatever calls itself ordered sorts as its values do, also from the smallest to the largest.
func TestOrderedCodecsSortAsTheirValues(t *testing.T) {
	ordered(t, OrderedInt32, rapid.Int32(), cmp.Compare, math.MinInt32, -2, -1, 0, 1, 2, math.MaxInt32)
	ordered(t, OrderedInt64, rapid.Int64(), cmp.Compare, math.MinInt64, -2, -1, 0, 1, 2, math.MaxInt64)
	ordered(t, OrderedFloat64, rapid.Float64(), cmp.Compare, math.Inf(-1), -1.5, 0, 1.5, math.Inf(1))
	ordered(t, Time, instants, time.Time.Compare, time.Unix(-1, 0), time.Unix(0, 0), time.Unix(0, 1))
	ordered(t, String, rapid.String(), cmp.Compare, "", "a", "a\x00", "b")
	for _, c := range []interface{ Ordered() bool }{Int32, Int64, Float64, JSON[point](), TimeWindowed(String, 1), SessionWindowed(String)} {
		if c.Ordered() {
			t.Errorf("%T is not ordered", c)
		}
	}
}

func ordered[T any](t *testing.T, c Codec[T], g *rapid.Generator[T], compare func(a, b T) int, rising ...T) {
	check := func(t interface{ Fatalf(string, ...any) }, v, w T) {
		a, err1 := c.Encode(nil, v)
		b, err2 := c.Encode(nil, w)
		if err1 != nil || err2 != nil || (compare(v, w) < 0) != (bytes.Compare(a, b) < 0) {
			t.Fatalf("%s: %v %v: %x %x %v %v", c.Name(), v, w, a, b, err1, err2)
		}
	}
	for _, v := range rising {
		for _, w := range rising {
			check(t, v, w)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v, w := g.Draw(t, "v"), g.Draw(t, "w")
		if compare(v, w) != 0 {
			check(t, v, w)
		}
	})
}

func FuzzTimeWindowed(f *testing.F)    { fuzzDecode(f, TimeWindowed(String, time.Minute)) }
func FuzzSessionWindowed(f *testing.F) { fuzzDecode(f, SessionWindowed(String)) }
func FuzzTime(f *testing.F)            { fuzzDecode(f, Time) }

// fuzzParse: a text is refused with a typed error, or read as a window that its codec can write, in bytes and as a text that
// is read as the same window again.
func fuzzParse[K comparable](f *testing.F, c Codec[record.Windowed[K]]) {
	for _, s := range []string{"", "@", "7@0", "a@b@60000", "7@1..2", "7@2..1", "7@-1", "7@+1..+2", "@0..0", "7@9223372036854775807", "7@0..9223372036854775807", "7@0..0x1", "\xff@0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := c.ParseText(s)
		if e := (*Error)(nil); err != nil {
			if !errors.As(err, &e) {
				t.Fatalf("%q: untyped error %v", s, err)
			}
			return
		}
		b, err := c.Encode(nil, v)
		if err != nil {
			t.Fatalf("%q is read as %+v, which cannot be written: %v", s, v, err)
		}
		decoded, err1 := c.Decode(b)
		parsed, err2 := c.ParseText(c.FormatText(v))
		if err1 != nil || err2 != nil || decoded != v || parsed != v {
			t.Fatalf("%q is %+v; its bytes are %+v (%v), its text is %+v (%v)", s, v, decoded, err1, parsed, err2)
		}
	})
}

func FuzzTimeWindowedText(f *testing.F)          { fuzzParse(f, TimeWindowed(String, time.Minute)) }
func FuzzTimeWindowedNumberText(f *testing.F)    { fuzzParse(f, TimeWindowed(Int64, time.Minute)) }
func FuzzSessionWindowedText(f *testing.F)       { fuzzParse(f, SessionWindowed(String)) }
func FuzzSessionWindowedNumberText(f *testing.F) { fuzzParse(f, SessionWindowed(OrderedInt64)) }

func ExampleTimeWindowed() {
	c := TimeWindowed(String, time.Minute)
	w, err := c.ParseText("alice@60000")
	fmt.Println(w.Key, w.Start, w.End, err)
	// Output: alice 60000 120000 <nil>
}
