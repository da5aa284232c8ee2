package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

type point struct{ X, Y int }

func roundTrip[T comparable](t *testing.T, c Codec[T], g *rapid.Generator[T]) {
	t.Run(c.Name(), func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			v, w := g.Draw(t, "v"), g.Draw(t, "w")
			b, err := c.Encode([]byte("before"), v)
			if err != nil || !bytes.HasPrefix(b, []byte("before")) {
				t.Fatalf("Encode must append: %q %v", b, err)
			}
			if got, err := c.Decode(b[6:]); err != nil || got != v {
				t.Fatalf("Decode: %v %v, want %v", got, err, v)
			}
			if got, err := c.ParseText(c.FormatText(v)); err != nil || got != v {
				t.Fatalf("ParseText: %v %v, want %v", got, err, v)
			}
			// As texts, because 0 and -0 are equal to == and yet two keys, to this codec and to Kafka's.
			x, _ := c.Encode(nil, w)
			if (c.FormatText(v) == c.FormatText(w)) != bytes.Equal(b[6:], x) {
				t.Fatalf("equal values and equal bytes differ: %v %v", v, w)
			}
		})
	})
}

func TestRoundTrips(t *testing.T) {
	roundTrip(t, String, rapid.String())
	roundTrip(t, Int64, rapid.Int64())
	roundTrip(t, OrderedInt64, rapid.Int64())
	roundTrip(t, Int32, rapid.Int32())
	roundTrip(t, Float64, rapid.Float64())
	roundTrip(t, Bool, rapid.Bool())
	roundTrip(t, JSON[point](), rapid.Custom(func(t *rapid.T) point {
		return point{rapid.Int().Draw(t, "x"), rapid.Int().Draw(t, "y")}
	}))
}

func TestOrderedInt64SortsAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := rapid.Int64().Draw(t, "v"), rapid.Int64().Draw(t, "w")
		a, _ := OrderedInt64.Encode(nil, v)
		b, _ := OrderedInt64.Encode(nil, w)
		if (v < w) != (bytes.Compare(a, b) < 0) {
			t.Fatalf("%d %d: %x %x", v, w, a, b)
		}
	})
	if Int64.Ordered() || !OrderedInt64.Ordered() {
		t.Fatal("Int64 is not ordered, OrderedInt64 is")
	}
}

func TestBytesOfJava(t *testing.T) {
	for _, c := range []struct {
		got  func() ([]byte, error)
		want string
	}{
		{func() ([]byte, error) { return Int64.Encode(nil, -2) }, "fffffffffffffffe"},
		{func() ([]byte, error) { return OrderedInt64.Encode(nil, -2) }, "7ffffffffffffffe"},
		{func() ([]byte, error) { return Int32.Encode(nil, 258) }, "00000102"},
		{func() ([]byte, error) { return Float64.Encode(nil, 1) }, "3ff0000000000000"},
		{func() ([]byte, error) { return Bool.Encode(nil, true) }, "01"},
	} {
		if b, err := c.got(); err != nil || fmt.Sprintf("%x", b) != c.want {
			t.Errorf("%x %v, want %s", b, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	_, e1 := Int64.Decode([]byte("seven b"))
	_, e2 := Bool.Decode([]byte{2})
	_, e3 := Int32.ParseText("4294967296")
	_, e4 := JSON[point]().Decode([]byte("{"))
	_, e5 := Bytes.ParseText("*")
	_, e6 := Float64.Decode(nil)
	_, e7 := JSON[float64]().Encode(nil, math.Inf(1))
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7} {
		var e *Error
		if !errors.As(err, &e) || e.Codec == "" || e.Reason == "" {
			t.Errorf("%d: want a *codec.Error with a name and a reason, got %v", i+1, err)
		}
	}
}

func TestEmptyStaysEmpty(t *testing.T) {
	if b, err := Bytes.Decode([]byte{}); err != nil || b == nil || len(b) != 0 {
		t.Fatalf("%#v %v", b, err)
	}
	if s, err := String.Decode([]byte{}); err != nil || s != "" {
		t.Fatalf("%q %v", s, err)
	}
	if !Copies(Int64) || Copies(String) || Copies(Bytes) {
		t.Fatal("numbers copy; strings and bytes share")
	}
}

func fuzzDecode[T any](f *testing.F, c Codec[T]) {
	f.Add([]byte{})
	f.Add([]byte("12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := c.Decode(b)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %v", err)
		}
		if err != nil {
			return
		}
		if out, err := c.Encode(nil, v); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%x decodes, and encodes as %x (%v)", b, out, err)
		}
	})
}

func FuzzInt64(f *testing.F)  { fuzzDecode(f, OrderedInt64) }
func FuzzInt32(f *testing.F)  { fuzzDecode(f, Int32) }
func FuzzBool(f *testing.F)   { fuzzDecode(f, Bool) }
func FuzzString(f *testing.F) { fuzzDecode(f, String) }
func FuzzBytes(f *testing.F)  { fuzzDecode(f, Bytes) }

func FuzzPlainInt64(f *testing.F)     { fuzzDecode(f, Int64) }
func FuzzOrderedInt32(f *testing.F)   { fuzzDecode(f, OrderedInt32) }
func FuzzFloat64(f *testing.F)        { fuzzDecode(f, Float64) }
func FuzzOrderedFloat64(f *testing.F) { fuzzDecode(f, OrderedFloat64) }

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"X":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e *Error
		if _, err := JSON[point]().Decode(b); err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %v", err)
		}
	})
}

func ExampleCodec() {
	b, _ := Int64.Encode(nil, 3)
	v, _ := Int64.Decode(b)
	_, err := Int64.Decode([]byte("abc"))
	fmt.Println(len(b), v, err)
	// Output: 8 3 codec int64: want 8 bytes, got 3
}
