package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
)

// model is what a state must hold.
type model struct {
	stores   [2]rows
	next     int64
	stored   bool
	position record.Position
}

func (m *model) clone() *model {
	c := *m
	c.stores = [2]rows{maps.Clone(m.stores[0]), maps.Clone(m.stores[1])}
	c.position = maps.Clone(m.position)
	return &c
}

func newModel() *model { return &model{stores: [2]rows{{}, {}}, position: record.Position{}} }

// unit draws a change and makes it in the model.
func (m *model) unit(t *rapid.T) *Unit {
	type slot struct {
		store int
		key   string
	}
	key := rapid.Custom(func(t *rapid.T) slot {
		return slot{rapid.IntRange(0, 1).Draw(t, "store"), rapid.StringOfN(rapid.RuneFrom([]rune("\x00aé")), 0, 3, -1).Draw(t, "key")}
	})
	value := rapid.Ptr(rapid.StringN(0, 20, -1), true)
	changes := rapid.MapOfN(key, value, 0, 12).Draw(t, "changes")
	u := &Unit{Changelog: []StoreOffset{{0, m.next + int64(len(changes))}}, Position: record.Position{source: m.next}, WallClock: m.next}
	m.next += int64(len(changes))
	m.stored = true
	m.position[source] = u.Position[source]
	for s, v := range changes {
		w := Write{Store: s.store, Key: []byte(s.key), Timestamp: int64(len(s.key))}
		delete(m.stores[s.store], s.key)
		if v != nil {
			w.Value = []byte(*v)
			m.stores[s.store][s.key] = *v
		}
		u.Writes = append(u.Writes, w)
	}
	slices.SortFunc(u.Writes, func(a, b Write) int {
		if a.Store != b.Store {
			return a.Store - b.Store
		}
		return bytes.Compare(a.Key, b.Key)
	})
	return u
}

func (m *model) compare(t failer, s *TaskState) {
	t.Helper()
	for i := range m.stores {
		if d := cmp.Diff(m.stores[i], content(t, s, i)); d != "" {
			t.Fatalf("store %d: %s", i, d)
		}
	}
	if next, ok := s.Offset(0); next != m.next || ok != m.stored {
		t.Fatalf("offset %d, %v; want %d, %v", next, ok, m.next, m.stored)
	}
	if d := cmp.Diff(m.position, s.Position()); d != "" {
		t.Fatal(d)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestStateEqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		m := newModel()
		d := openDir(t, fs)
		s, _ := openTask(t, d, testSpec())
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) { apply(t, s, m.unit(t)) },
			"flush": func(t *rapid.T) {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			},
			"reopen": func(t *rapid.T) {
				closeDir(t, d)
				d = openDir(t, fs)
				var report OpenReport
				if s, report = openTask(t, d, testSpec()); report.Reason != Usable || len(report.Changes) != 0 {
					t.Fatal(report)
				}
			},
			"range": func(t *rapid.T) { compareRange(t, s, m) },
		})
		m.compare(t, s)
		closeDir(t, d)
	})
}

func compareRange(t *rapid.T, s *TaskState, m *model) {
	bound := rapid.Ptr(rapid.StringOfN(rapid.RuneFrom([]rune("\x00aé")), 0, 3, -1), true)
	from, to := bound.Draw(t, "from"), bound.Draw(t, "to")
	reverse := rapid.Bool().Draw(t, "reverse")
	var lower, upper []byte
	if from != nil {
		lower = []byte(*from)
	}
	if to != nil {
		upper = []byte(*to)
	}
	var want, got []string
	for _, k := range slices.Sorted(maps.Keys(m.stores[0])) {
		if (from == nil || k >= *from) && (to == nil || k <= *to) {
			want = append(want, k)
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	for e, err := range s.Scan(0, lower, upper, reverse) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Key))
	}
	if !slices.Equal(want, got) {
		t.Fatalf("%q to %q: %q, want %q", lower, upper, got, want)
	}
}

// After a crash the state is one that was there: whole units, and the offset and position that belong to them.
func TestCrashNeverTearsDataFromItsOffset(t *testing.T) {
	for _, percent := range []int{0, 30, 70, 100} {
		t.Run(fmt.Sprint(percent, " percent of what was not synced"), func(t *testing.T) {
			for seed := range uint64(6) {
				crashRun(t, percent, rand.New(rand.NewPCG(seed, uint64(percent))))
			}
		})
	}
}

// crashRun writes, with a flush now and then, and takes a crashed copy after some writes.
func crashRun(t *testing.T, percent int, rng *rand.Rand) {
	fs := vfs.NewCrashableMem()
	d := openDir(t, fs)
	s, _ := openTask(t, d, testSpec())
	past := map[int64]*model{0: newModel()}
	m, flushed := newModel(), int64(0)
	for i := range 150 {
		pairs := []string{}
		for _, k := range []string{"a", "b", "c"} {
			if rng.IntN(2) == 0 {
				pairs = append(pairs, k, fmt.Sprintf("%d%s", i, strings.Repeat("x", rng.IntN(9000))))
			}
		}
		m.next, m.stored = m.next+1, true
		m.position[source] = m.next
		u := &Unit{Writes: append(writes(0, pairs...), writes(1, pairs...)...), Changelog: []StoreOffset{{0, m.next}}, Position: record.Position{source: m.next}}
		for j := 0; j < len(pairs); j += 2 {
			m.stores[0][pairs[j]], m.stores[1][pairs[j]] = pairs[j+1], pairs[j+1]
		}
		apply(t, s, u)
		past[m.next] = m.clone()
		if rng.IntN(20) == 0 {
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			flushed = m.next
		}
		if rng.IntN(40) == 0 {
			compareCrashed(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), past, flushed)
		}
	}
	closeDir(t, d)
	compareCrashed(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), past, m.next)
}

// compareCrashed opens what a crash has left. It must be one of the past states, and none from before the last flush.
func compareCrashed(t *testing.T, fs vfs.FS, past map[int64]*model, flushed int64) {
	t.Helper()
	d := openDir(t, fs)
	defer closeDir(t, d)
	s, report := openTask(t, d, testSpec())
	if report.MovedAside() {
		t.Fatal(report)
	}
	next, _ := s.Offset(0)
	if next < flushed || past[next] == nil {
		t.Fatalf("%v: offset %d, flushed were %d", report, next, flushed)
	}
	past[next].compare(t, s)
}

func TestBulkRestoreThatCrashesKeepsDataAndOffsetTogether(t *testing.T) {
	l := newLog(0, 0)
	l.fill(350_000, 20_000)
	l.batch = 10_000
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewCrashableMem()
		d := openDir(t, fs)
		s, _ := openTask(t, d, testSpec())
		var crashed *vfs.MemFS
		l.fail = func(at int64) error {
			if at == 320_000 {
				crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
			}
			return nil
		}
		restoreAll(t, s, l)
		closeDir(t, d)

		d = openDir(t, crashed)
		s, report := openTask(t, d, testSpec())
		next, _ := s.Offset(0)
		cut := *l
		cut.end = next
		if d := cmp.Diff(cut.replay(t, 0), content(t, s, 0)); d != "" || report.MovedAside() || next == 0 {
			t.Fatalf("%v at offset %d: %s", report, next, d[:min(len(d), 500)])
		}
		restoreAll(t, s, l)
		closeDir(t, d)
	}
}

func TestUnitsThatAreMistakesWriteNothing(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	var spec *SpecError
	for name, u := range map[string]*Unit{
		"null key":        {Writes: []Write{{Key: []byte("a"), Value: []byte{}}, {Value: []byte("v")}}},
		"no such store":   {Writes: []Write{{Key: []byte("a"), Value: []byte{}}, {Store: 2, Key: []byte("a")}}},
		"negative offset": {Changelog: []StoreOffset{{0, -1}}},
	} {
		if err := s.Apply(u); !errors.As(err, &spec) && !errors.Is(err, ErrNullKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newModel().compare(t, s)
	if _, _, _, err := s.Get(0, nil); !errors.Is(err, ErrNullKey) {
		t.Error(err)
	}
	if s.StoreIndex("names") != 1 || s.StoreIndex("nobody") != -1 {
		t.Error("StoreIndex")
	}
}

func TestZombieOfAnEarlierEpochCannotWrite(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(0, "a", "before any lease")})
	zombie, err := s.Lease(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Apply(&Unit{Writes: writes(0, "a", "3")}); err != nil {
		t.Fatal(err)
	}
	successor, err := s.Lease(4)
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Writes: writes(0, "a", "zombie"), Changelog: []StoreOffset{{0, 9}}}
	if err := zombie.Apply(u); !errors.Is(err, ErrLeaseRevoked) {
		t.Error(err)
	}
	if err := s.Apply(u); !errors.Is(err, ErrLeaseRevoked) {
		t.Error(err)
	}
	if _, err := s.Lease(3); !errors.Is(err, ErrLeaseRevoked) {
		t.Error(err)
	}
	if err := successor.Apply(&Unit{Writes: writes(0, "b", "4")}); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(rows{"a": "3", "b": "4"}, content(t, s, 0)); d != "" {
		t.Error(d)
	}
}

// Readers, scans and a writer meet a Close: nothing panics, and whoever is late gets the typed error.
func TestCloseMeetsReadersWithATypedError(t *testing.T) {
	for range 20 {
		d := openDir(t, vfs.NewMem())
		s, _ := openTask(t, d, testSpec())
		apply(t, s, &Unit{Writes: writes(0, "a", "1", "b", "2")})
		var wg sync.WaitGroup
		started := make(chan struct{}, 100)
		until := func(op func() error) {
			wg.Go(func() {
				for i := 0; ; i++ {
					if i == 3 {
						started <- struct{}{}
					}
					if err := op(); err != nil {
						if !errors.Is(err, ErrStateStoreClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for range 2 {
			until(func() error { _, _, _, err := s.Get(0, []byte("a")); return err })
			until(func() error {
				for _, err := range s.Scan(0, nil, nil, false) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		until(func() error { return s.Apply(&Unit{Writes: writes(1, "c", "3")}) })
		for range 5 {
			<-started
		}
		closeDir(t, d)
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error("second Close:", err)
		}
		s.Abandon()
		for name, err := range map[string]error{"flush": s.Flush(), "check": s.Check(), "apply": s.Apply(&Unit{})} {
			if !errors.Is(err, ErrStateStoreClosed) {
				t.Error(name, err)
			}
		}
	}
}

func TestScanThatIsHeldOverCloseEndsWithTheTypedError(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(0, "a", "1", "b", "2")})
	closed := make(chan error)
	var last error
	for _, err := range s.Scan(0, nil, nil, false) {
		if last = err; err != nil {
			break
		}
		go func() { closed <- s.Close() }()
		for !s.engine.lease.ending() {
			_, _ = s.Offset(0)
		}
	}
	if !errors.Is(last, ErrStateStoreClosed) {
		t.Error(last)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	closeDir(t, d)
}
