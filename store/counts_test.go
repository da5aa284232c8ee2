package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
)

// Counts are of what reaches the engine; they go on when the state is opened again.
func TestCountsOfAStore(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprintf("inMemory=%t", inMemory), func(t *testing.T) {
			dir, spec, c := openDir(t, vfs.NewMem()), testSpec(), &Counts{}
			defer closeDir(t, dir)
			spec.Stores[0].Counts, spec.Stores[0].InMemory = c, inMemory
			for range 2 {
				s, _ := openTask(t, dir, spec)
				writes := []Write{{Key: []byte("a"), Value: []byte("xy")}, {Key: []byte("b")}, {Store: 1, Key: []byte("c"), Value: []byte("z")}}
				if err := s.Apply(&Unit{Writes: writes}); err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(&Unit{Writes: []Write{{Key: nil}}}); err == nil {
					t.Fatal("a null key was written")
				}
				if _, _, ok, err := s.Get(0, []byte("a")); !ok || err != nil {
					t.Fatal(ok, err)
				}
				if _, _, err := s.getMany(0, [][]byte{[]byte("a"), []byte("b")}, query.MaxValuesBytes); err != nil {
					t.Fatal(err)
				}
				for _, err := range s.Scan(0, nil, nil, false) {
					if err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.walk(0, func(int64) span { return span{} }, func(_, _ []byte, _ int64) bool { return true }); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if c.Gets() != 6 || c.Scans() != 4 || c.Puts() != 4 || c.Bytes() != 8 {
				t.Errorf("%d gets, %d scans, %d puts of %d bytes", c.Gets(), c.Scans(), c.Puts(), c.Bytes())
			}
		})
	}
}

// A restore tells how long each batch took that it has written, and of none that it has not.
func TestRestoresTellOfEachBatch(t *testing.T) {
	for name, c := range map[string]struct {
		records  int
		inMemory bool
		most     int64
	}{"none": {0, false, 100}, "batches": {3 * batchRecordsMax, false, 100}, "in memory": {3 * batchRecordsMax, true, 100}, "tables": {tablesRecordsMin + bulkRecordsMax, false, 100}, "broken": {3 * batchRecordsMax, false, 2}} {
		t.Run(name, func(t *testing.T) {
			broken, left := errors.New("broken"), c.most
			dir := openDir(t, vfs.NewMem(), func(o *DirectoryOptions) {
				o.Fault = fault.Hook(func(s fault.Site) error {
					if s.Point == fault.RestoreBatch {
						if left--; left < 0 {
							return broken
						}
					}
					return nil
				})
			})
			defer closeDir(t, dir)
			var took []time.Duration
			spec := testSpec()
			spec.Stores[0].InMemory, spec.Stores[0].Counts = c.inMemory, &Counts{Restored: func(d time.Duration) { took = append(took, d) }}
			s, _ := openTask(t, dir, spec)
			l, written := newLog(0, 0), 0
			for i := range c.records {
				l.put(int64(i), fmt.Appendf(nil, "%08d", i), []byte("v"))
			}
			result, err := Restore(t.Context(), s, 0, l, func(p lifecycle.Progress) {
				if p.Restored > 0 {
					written++
				}
			})
			if want := c.most < 100; errors.Is(err, broken) != want || err != nil != want || !want && result.Records != int64(c.records) {
				t.Errorf("%+v, %v", result, err)
			}
			if len(took) != written || written == 0 != (c.records == 0) || c.records > 0 && written < 2 || int64(written) > c.most {
				t.Errorf("%d batches were written, and it told of %d: %v", written, len(took), took)
			}
			if slices.ContainsFunc(took, func(d time.Duration) bool { return d < 0 }) {
				t.Error(took)
			}
		})
	}
}

// The size is that of the store's own files, once they are written.
func TestDiskUsage(t *testing.T) {
	dir := openDir(t, vfs.NewMem())
	defer closeDir(t, dir)
	s, _ := openTask(t, dir, testSpec())
	u := &Unit{}
	for i := range 1_000 {
		u.Writes = append(u.Writes, Write{Key: fmt.Appendf(nil, "%06d", i), Value: bytes.Repeat(fmt.Append(nil, i), 200)})
	}
	if err := s.Apply(u); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.DiskUsage(0); err != nil || n < 1_000 {
		t.Error(n, err)
	}
	if n, err := s.DiskUsage(1); err != nil || n > 1_000 {
		t.Error(n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DiskUsage(0); err == nil {
		t.Error("it is closed")
	}
}
