package record

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawPosition(t *rapid.T) Position {
	source := rapid.Custom(func(t *rapid.T) TopicPartition {
		return TopicPartition{rapid.SampledFrom([]string{"a", "ab", "b", "words", ""}).Draw(t, "topic"), rapid.Int32Range(0, 1<<30).Draw(t, "partition")}
	})
	return rapid.MapOf(source, rapid.Int64()).Draw(t, "position")
}

func TestPositionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPosition(t)
		b := EncodePosition(p)
		got, err := DecodePosition(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Fatal(d)
		}
		if !bytes.Equal(b, EncodePosition(got)) {
			t.Fatal("equal positions, different bytes")
		}
	})
}

func TestPositionOfDamagedBytesIsATypedError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "cut") {
			b = EncodePosition(drawPosition(t))
			b = b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]
		}
		if p, err := DecodePosition(b); err != nil && (!errors.Is(err, ErrPosition) || p != nil) {
			t.Fatalf("%v, %v", p, err)
		}
	})
	for _, b := range [][]byte{nil, {2, 0}, {1}, {1, 1}, {1, 0, 0}} {
		if _, err := DecodePosition(b); !errors.Is(err, ErrPosition) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

func TestMergePositionNeverGoesBack(t *testing.T) {
	a, b := TopicPartition{"t", 0}, TopicPartition{"t", 1}
	p := Position{a: 5}
	MergePosition(p, Position{a: 3, b: 7})
	if d := cmp.Diff(Position{a: 5, b: 7}, p); d != "" {
		t.Error(d)
	}
}

func BenchmarkAppendPosition(b *testing.B) {
	p := Position{}
	for i := range int32(4) {
		p[TopicPartition{"lines", i}] = 1 << 40
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendPosition(dst[:0], p)
	}
}
