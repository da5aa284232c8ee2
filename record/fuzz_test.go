package record_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	. "github.com/millrace-io/millrace/record"
)

// FuzzPosition: bytes are refused with a typed error, or are a position that comes back from its own bytes.
func FuzzPosition(f *testing.F) {
	for _, p := range []Position{{}, {{Topic: "lines", Partition: 3}: 17}, {{Topic: "", Partition: -1}: -1, {Topic: "a", Partition: 1 << 30}: 1 << 62}} {
		f.Add(EncodePosition(p))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePosition(b)
		if err != nil {
			if !errors.Is(err, ErrPosition) || p != nil {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		if again, err := DecodePosition(EncodePosition(p)); err != nil || !maps.Equal(again, p) {
			t.Fatalf("%v became %v, %v", p, again, err)
		}
		if 2*len(p) > len(b) {
			t.Fatalf("%d bytes hold %d offsets", len(b), len(p))
		}
	})
}

// FuzzWindowKeys: bytes that are a key of a window or of a session are put together again as they were.
func FuzzWindowKeys(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendWindowSuffix([]byte("k"), 60_000, 7))
	f.Add(AppendSessionSuffix([]byte("k"), 1, 2))
	f.Add(bytes.Repeat([]byte{0xff}, 17))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, start, seq, ok := SplitWindowKey(b); ok {
			if start < 0 || !bytes.Equal(AppendWindowSuffix(bytes.Clone(key), start, seq), b) {
				t.Fatalf("%x is no window of %x at %d", b, key, start)
			}
		}
		if key, start, end, ok := SplitSessionKey(b); ok {
			if start < 0 || end < start || !bytes.Equal(AppendSessionSuffix(bytes.Clone(key), start, end), b) {
				t.Fatalf("%x is no session of %x from %d to %d", b, key, start, end)
			}
		}
	})
}

// FuzzUpperBound: no key up to the bound has a row behind it, whatever its suffix is, up to the given one.
func FuzzUpperBound(f *testing.F) {
	f.Add([]byte("a\x00"), []byte("a"), []byte{9, 9}, []byte{9, 8})
	f.Add([]byte{}, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, bound, key, suffix, own []byte) {
		if bytes.Compare(key, bound) > 0 || len(own) != len(suffix) || bytes.Compare(own, suffix) > 0 {
			return
		}
		if row := append(bytes.Clone(key), own...); bytes.Compare(row, UpperBound(bound, suffix)) > 0 {
			t.Fatalf("row %x is behind the bound %x of %x", row, UpperBound(bound, suffix), bound)
		}
	})
}

// FuzzTaskID: a name is a task's exactly if it is the one that the task has; a state directory is named by it.
func FuzzTaskID(f *testing.F) {
	for _, name := range []string{"0_3", "2147483647_0", "2147483648_0", "00_3", "0_+3", "-1_0", "0_3_", "lock", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := ParseTaskID(name); ok && (id.String() != name || id.SubTopology < 0 || id.Partition < 0) {
			t.Fatalf("%q is %+v", name, id)
		}
	})
}
