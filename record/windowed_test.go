package record_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "github.com/millrace-io/millrace/record"
)

// The bytes are those that Kafka Streams writes: WindowKeySchema and SessionKeySchema.
func TestWindowedKeyBytesAreKafkaStreams(t *testing.T) {
	w := AppendWindowSuffix([]byte("k"), 0x0102, 3)
	if got := fmt.Sprintf("%x", w); got != "6b"+"0000000000000102"+"00000003" {
		t.Errorf("window %s", got)
	}
	s := AppendSessionSuffix([]byte("k"), 1, 0x0203)
	if got := fmt.Sprintf("%x", s); got != "6b"+"0000000000000203"+"0000000000000001" {
		t.Errorf("session %s", got)
	}
}

func TestWindowedKeysComeApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		start := rapid.Int64Min(0).Draw(t, "start")
		end := rapid.Int64Min(start).Draw(t, "end")
		seq := rapid.Uint32().Draw(t, "seq")
		k, s, q, ok := SplitWindowKey(AppendWindowSuffix(bytes.Clone(key), start, seq))
		if !bytes.Equal(k, key) || s != start || q != seq || !ok {
			t.Fatal(k, s, q, ok)
		}
		k, s, e, ok := SplitSessionKey(AppendSessionSuffix(bytes.Clone(key), start, end))
		if !bytes.Equal(k, key) || s != start || e != end || !ok {
			t.Fatal(k, s, e, ok)
		}
	})
	for _, bad := range [][]byte{nil, make([]byte, 11), bytes.Repeat([]byte{0xff}, 20)} {
		if _, _, _, ok := SplitWindowKey(bad); ok {
			t.Errorf("%x is no window key", bad)
		}
		if _, _, _, ok := SplitSessionKey(bad); ok {
			t.Errorf("%x is no session key", bad)
		}
	}
	if _, _, _, ok := SplitSessionKey(AppendSessionSuffix(nil, 5, 4)); ok {
		t.Error("a session ends after it starts")
	}
}

// Of keys that interleave, the bound is the highest key that is wanted, not a byte less.
func TestUpperBoundIsTheHighestKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesUpTo := func(n int) *rapid.Generator[[]byte] {
			return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 0, n)
		}
		high, suffix := bytesUpTo(5).Draw(t, "high"), rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0x7f}), 3, 3).Draw(t, "suffix")
		var all [][]byte
		for i := range len(high) + 1 {
			all = append(all, append(bytes.Clone(high[:i]), suffix...))
		}
		if got, want := UpperBound(high, suffix), slices.MaxFunc(all, bytes.Compare); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
		low := bytesUpTo(6).Draw(t, "low")
		mine := append(bytes.Clone(low), suffix...)
		if bytes.Compare(low, high) <= 0 && bytes.Compare(mine, UpperBound(high, suffix)) > 0 {
			t.Fatalf("%x is below %x and left out", low, high)
		}
	})
}
