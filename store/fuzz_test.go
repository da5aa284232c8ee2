package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/record"
)

// FuzzEngineBytes: what the engine holds under any of the keys is refused with an error, or comes back as it was.
func FuzzEngineBytes(f *testing.F) {
	value := make([]byte, valueOverhead+2)
	putValue(value, -5, []byte("ab"))
	for _, b := range [][]byte{{}, value, mark{17, -1}.encode(), binary.BigEndian.AppendUint64(nil, 9), (&registry{Format: formatVersion}).encode(), []byte(`{"Format":99}`)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if timestamp, v, err := splitValue(b); err == nil {
			again := make([]byte, valueOverhead+len(v))
			if putValue(again, timestamp, v); !bytes.Equal(again, b) {
				t.Fatalf("%x became %x", b, again)
			}
		} else if !errors.Is(err, errValue) {
			t.Fatal(err)
		}
		if m, err := decodeMark(b); err == nil && !bytes.Equal(m.encode(), b) {
			t.Fatalf("%x is %+v", b, m)
		}
		commit, err1 := decodeCommit(b)
		at, err2 := decodeClock(b)
		if (err1 == nil) != (len(b) == 8) || (err2 == nil) != (len(b) == 8) || err1 == nil && commit != uint64(at) {
			t.Fatalf("%x is commit %d (%v), clock %d (%v)", b, commit, err1, at, err2)
		}
		if r, err := decodeRegistry("dir", b); err == nil {
			again, err := decodeRegistry("dir", r.encode())
			if err != nil || !bytes.Equal(again.encode(), r.encode()) {
				t.Fatalf("%q became %+v, %v", b, again, err)
			}
		} else if r != nil {
			t.Fatal("a registry and an error")
		}
	})
}

// FuzzChangelog: whatever records a changelog has, a restore of it is what comes of them one after the other, or ends with
// a *ChangelogError at the record that no store can have written. Restored twice, it is the same.
func FuzzChangelog(f *testing.F) {
	f.Add([]byte{1, 'k', 2, 'v', 'w', 1, 'k', 0}, record.EncodePosition(record.Position{source: 9}))
	f.Add([]byte{0, 3, 'e', 'm', 'p', 0xff, 1}, []byte{2})
	f.Add([]byte{0xfe, 1, 'v', 1, 'k', 0xff}, []byte{})
	f.Fuzz(func(t *testing.T, b, header []byte) {
		l := newLog(0, 0)
		null := fillFrom(l, b, record.Header{Key: record.PositionHeader, Value: header})
		d := openDir(t, vfs.NewMem())
		defer closeDir(t, d)
		s, _ := openTask(t, d, testSpec())
		_, err := Restore(context.Background(), s, 0, l, nil)
		var broken *ChangelogError
		if null >= 0 {
			if !errors.As(err, &broken) || broken.Offset != null || !errors.Is(err, ErrNullKey) {
				t.Fatalf("%v, though the record at %d has no key", err, null)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := content(t, s, 0), l.replay(t, 0); !maps.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		p, err := record.DecodePosition(header)
		if err != nil || len(l.records) == 0 {
			p = nil
		}
		if got := s.Position(); !maps.Equal(got, p) {
			t.Fatalf("position %v, want %v", got, p)
		}
		restoreAll(t, s, l)
	})
}

// fillFrom makes a changelog of bytes: length and key, length and value. A length of 255 is null, one of 254 an offset
// without a record. Each record has the header. It gives the offset of the first record without a key, or -1.
func fillFrom(l *memoryLog, b []byte, h record.Header) (null int64) {
	take := func() []byte {
		if len(b) == 0 || b[0] == 0xff {
			b = b[min(1, len(b)):]
			return nil
		}
		n := min(int(b[0]), len(b)-1)
		out := b[1 : n+1]
		b = b[n+1:]
		return out
	}
	null = -1
	for at := int64(0); len(b) > 0; at++ {
		if b[0] == 0xfe {
			b, l.end = b[1:], at+1
			continue
		}
		l.put(at, take(), take(), h)
		if null < 0 && l.records[at].Key == nil {
			null = at
		}
	}
	return null
}
