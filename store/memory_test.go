package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
)

// memorySpec is testSpec with its first store in memory.
func memorySpec() TaskSpec {
	spec := testSpec()
	spec.Stores[0].InMemory = true
	return spec
}

// A store in memory is a map, in every read there is, and so is the store on disk beside it. A reopened one is empty until
// it is restored.
func TestStoreInMemoryEqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, fs := newModel(), vfs.NewMem()
		d := openDir(t, fs)
		s, _ := openTask(t, d, memorySpec())
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) { apply(t, s, m.unit(t)) },
			"range": func(t *rapid.T) { compareRange(t, s, m) },
			"compare": func(t *rapid.T) {
				m.compare(t, s)
				var keys [][]byte
				for k := range m.stores[0] {
					keys = append(keys, []byte(k))
				}
				values, _, err := s.getMany(0, append(keys, []byte("absent")), 1<<20)
				if err != nil || values[len(keys)].Present {
					t.Fatal(err)
				}
				for i, k := range keys {
					if string(values[i].Value) != m.stores[0][string(k)] || !values[i].Present {
						t.Fatalf("%q: %v", k, values[i])
					}
				}
			},
			"reopen": func(t *rapid.T) {
				closeDir(t, d)
				d = openDir(t, fs)
				s, _ = openTask(t, d, memorySpec())
				if _, ok := s.Offset(0); ok || len(content(t, s, 0)) != 0 {
					t.Fatal("a store in memory was not empty")
				}
				if d := cmp.Diff(m.stores[1], content(t, s, 1)); d != "" {
					t.Fatal(d)
				}
				m.stores[0], m.stored, m.next = rows{}, false, 0
			},
		})
		closeDir(t, d)
	})
}

// Many rows, so that blocks are cut and joined: what a merge makes is what a map is, and the one before does not change.
func TestMemoryMergesEqualAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := &memory{}, rows{}
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			var changes []change
			first, n := rapid.IntRange(0, 600).Draw(t, "first"), rapid.IntRange(1, 300).Draw(t, "n")
			every, gone := rapid.IntRange(1, 3).Draw(t, "every"), rapid.Bool().Draw(t, "delete")
			for i := first; i < first+n; i += every {
				c := change{key: fmt.Appendf(nil, "k%04d", i), at: i}
				delete(model, string(c.key))
				if !gone {
					c.value = fmt.Append(nil, first, n)
					model[string(c.key)] = string(c.value)
				}
				changes = append(changes, c)
			}
			before, blocks := m, slices.Clone(m.blocks)
			m = m.merge(changes)
			for _, c := range changes {
				clear(c.key) // what is kept is a copy
			}
			if err := m.check(); err != nil || before.check() != nil || len(before.blocks) != len(blocks) {
				t.Fatal(err, before.check())
			}
			got := rows{}
			m.walk(span{}, func(r *row) bool { got[string(r.key)] = string(r.value); return true })
			if !maps.Equal(got, model) || m.rows != len(model) {
				t.Fatalf("%d rows, want %d", len(got), len(model))
			}
		}
		if most := m.rows/(blockRows/4) + 2; len(m.blocks) > most {
			t.Fatalf("%d rows in %d blocks", m.rows, len(m.blocks))
		}
	})
}

// A scan goes on in the state that it began with while commits go on, and ends with the typed error when the state closes.
func TestScanInMemoryIsASnapshot(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, memorySpec())
	apply(t, s, &Unit{Writes: writes(0, "a", "1", "b", "1", "c", "1"), Changelog: []StoreOffset{{0, 1}}})
	var got []string
	var last error
	for e, err := range s.Scan(0, nil, nil, false) {
		switch {
		case err != nil:
			last = err
		case len(got) == 0:
			apply(t, s, &Unit{Writes: writes(0, "b", "2", "c", "-"), Changelog: []StoreOffset{{0, 2}}})
		case len(got) == 1:
			go s.Close()
			<-s.Closed()
		}
		if err == nil {
			got = append(got, string(e.Key)+string(e.Value))
		}
	}
	if !slices.Equal(got, []string{"a1", "b1"}) || last != ErrStateStoreClosed {
		t.Errorf("%q, %v", got, last)
	}
}

// A restore fills it from the beginning of the log, in a few commits or in many, discards it when the log has lost what it
// stands on, and writes nothing of it to disk.
func TestRestoreInMemory(t *testing.T) {
	for _, n := range fewAndMany() {
		fs := vfs.NewMem()
		l := newLog(0, 0)
		l.batch = 2_000
		l.fill(n, n/3)
		for range 2 {
			d := openDir(t, fs)
			s, _ := openTask(t, d, memorySpec())
			if r := restoreAll(t, s, l); r.From != l.start || r.Bulk || r.Discarded != DiscardNone {
				t.Fatalf("%+v", r)
			}
			if d := cmp.Diff(l.replay(t, 0), content(t, s, 0)); d != "" {
				t.Fatal(d)
			}
			l.put(l.end, []byte("more"), []byte("v"))
			if r := restoreAll(t, s, l); r.Records != 1 {
				t.Fatalf("%+v", r)
			}
			apply(t, s, &Unit{Writes: writes(0, "later", "v"), Changelog: []StoreOffset{{0, l.end + 1}}})
			lost := newLog(l.end+9, l.end+9)
			if r := restoreAll(t, s, lost); r.Discarded != DiscardBehindLog || len(content(t, s, 0)) != 0 {
				t.Fatalf("%+v", r)
			}
			closeDir(t, d)
		}
	}
}

// From disk into memory and back: the bytes of the one mean nothing to the other.
func TestMovingAStoreIntoMemoryResetsIt(t *testing.T) {
	fs := vfs.NewMem()
	for i, spec := range []TaskSpec{testSpec(), memorySpec(), testSpec()} {
		d := openDir(t, fs)
		s, report := openTask(t, d, spec)
		if i > 0 && report.Changes["counts"] != StoreReset || len(content(t, s, 0)) != 0 {
			t.Errorf("%d: %v", i, report)
		}
		apply(t, s, &Unit{Writes: writes(0, "k", "v"), Changelog: []StoreOffset{{0, 1}}})
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		closeDir(t, d)
	}
}

// Windows in memory expire as on disk.
func TestWindowsInMemoryExpire(t *testing.T) {
	spec := windowSpec(kindWindow)
	spec.Stores[0].InMemory = true
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, spec)
	for i := range int64(30) {
		apply(t, s, &Unit{Writes: []Write{windowWrite(kindWindow, "k", i*minute, "v")}, Changelog: []StoreOffset{{0, i + 1}}})
		if n := len(content(t, s, 0)); n > 4 {
			t.Fatalf("%d rows at minute %d", n, i)
		}
	}
	want := rows{}
	for _, at := range []int64{28, 29} {
		want[string(record.AppendWindowSuffix([]byte("k"), at*minute, 0))] = "v"
	}
	if d := cmp.Diff(want, liveRows(t, s, 0)); d != "" || s.LiveFrom(0) != 27*minute+1 {
		t.Error(d, s.LiveFrom(0))
	}
}

func BenchmarkMemory(b *testing.B) {
	d, err := OpenDirectory(b.TempDir(), "app", DirectoryOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer closeDir(b, d)
	s, _ := openTask(b, d, memorySpec())
	u := benchUnit()
	for i := range u.Writes {
		u.Writes[i].Key = bytes.Clone(u.Writes[i].Key)
	}
	b.Run("apply 60k", func(b *testing.B) {
		for next := int64(1); b.Loop(); next++ {
			u.Changelog = []StoreOffset{{0, next}}
			apply(b, s, u)
		}
	})
	b.Run("get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, _, ok, err := s.Get(0, u.Writes[i*7919%benchKeys].Key); !ok || err != nil {
				b.Fatal(err)
			}
		}
	})
	l := newLog(0, 0)
	l.fill(300_000, 100_000)
	l.batch = 2_000
	b.Run("restore", func(b *testing.B) {
		began := time.Now()
		for b.Loop() {
			if err := s.write(0, func(v *view, _ *pebble.Batch) error {
				delete(v.marks, 0)
				v.memories[0] = &memory{}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			if _, err := Restore(context.Background(), s, 0, l, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(300_000*b.N)/time.Since(began).Seconds(), "records/s")
	})
}
