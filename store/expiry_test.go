package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
)

const minute = 60_000

// windowSpec is testSpec with a window store of two minutes, so that a segment has one, and a session store.
func windowSpec(kind string) TaskSpec {
	spec := testSpec()
	spec.Stores[0].Kind, spec.Stores[0].Retention = kind, 2*time.Minute
	spec.Stores[1].Kind, spec.Stores[1].Retention = kindSession, 0
	return spec
}

// windowKey is a key whose time, by which it expires, is at.
func windowKey(kind, key string, at int64) []byte {
	if kind == kindSession {
		return record.AppendSessionSuffix([]byte(key), max(0, at-7), at)
	}
	return record.AppendWindowSuffix([]byte(key), at, 0)
}

func windowWrite(kind, key string, at int64, value string) Write {
	return Write{Key: windowKey(kind, key, at), Value: []byte(value), Timestamp: at}
}

// liveRows is a store's content without what has expired.
func liveRows(t failer, s *TaskState, store int) rows {
	live := rows{}
	for k, v := range content(t, s, store) {
		if at, ok := s.spec.Stores[store].windowTime([]byte(k)); ok && at >= s.LiveFrom(store) {
			live[k] = v
		}
	}
	return live
}

// Whatever was applied, crashed, reopened: what is live is there, and what lies more than a segment and a retention back is
// gone after a few commits.
func TestWindowStoreEqualsAMapOfWhatIsLive(t *testing.T) {
	for _, kind := range []string{kindWindow, kindSession} {
		rapid.Check(t, func(t *rapid.T) {
			fs, now := vfs.NewMem(), int64(0)
			d := openDir(t, fs)
			s, _ := openTask(t, d, windowSpec(kind))
			model := map[string]Write{}
			next := int64(0)
			unit := func(writes ...Write) {
				next++
				slices.SortFunc(writes, func(a, b Write) int { return slices.Compare(a.Key, b.Key) })
				apply(t, s, &Unit{Writes: writes, Changelog: []StoreOffset{{0, next}}, WallClock: next})
			}
			t.Repeat(map[string]func(*rapid.T){
				"apply": func(t *rapid.T) {
					writes := map[string]Write{}
					for range rapid.IntRange(1, 6).Draw(t, "writes") {
						at := max(0, now+rapid.Int64Range(-3*minute, minute).Draw(t, "step"))
						now = max(now, at)
						w := windowWrite(kind, rapid.SampledFrom([]string{"", "a", "a\x00"}).Draw(t, "key"), at, "v")
						writes[string(w.Key)] = w
						model[string(w.Key)] = w
					}
					unit(slices.Collect(maps.Values(writes))...)
				},
				"reopen": func(*rapid.T) {
					closeDir(t, d)
					d = openDir(t, fs)
					s, _ = openTask(t, d, windowSpec(kind))
				},
				"": func(*rapid.T) {
					want := rows{}
					for k, w := range model {
						if at, _ := s.spec.Stores[0].windowTime([]byte(k)); at >= s.LiveFrom(0) {
							want[k] = string(w.Value)
						}
					}
					if d := cmp.Diff(want, liveRows(t, s, 0)); d != "" {
						t.Fatal(d)
					}
					if err := s.Check(); err != nil || len(model) > 0 && s.Time(0) != now {
						t.Fatal(err, s.Time(0), now)
					}
				},
			})
			now += 10 * minute
			unit(windowWrite(kind, "end", now, "v"))
			unit()
			if got := content(t, s, 0); len(got) != 1 {
				t.Fatalf("%d rows ten minutes later", len(got))
			}
			closeDir(t, d)
		})
	}
}

// A sweep goes on from commit to commit, a bounded number of rows each time, and ends. Another store keeps everything.
func TestSweepIsSpreadOverCommits(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, windowSpec(kindWindow))
	u := &Unit{}
	for i := range 3*sweepRows + 500 {
		u.Writes = append(u.Writes, windowWrite(kindWindow, fmt.Sprintf("k%06d", i), 1, "v"))
	}
	kept := windowWrite(kindSession, "kept", 1, "v")
	kept.Store = 1
	apply(t, s, &Unit{Writes: append(u.Writes, kept), Changelog: []StoreOffset{{0, 1}}})
	apply(t, s, &Unit{Writes: []Write{windowWrite(kindWindow, "z", 10*minute, "v")}, Changelog: []StoreOffset{{0, 2}}})
	var left []int
	for next := int64(3); ; next++ {
		n := len(content(t, s, 0))
		if left = append(left, n); n == 1 || next > 10 {
			break
		}
		apply(t, s, &Unit{Changelog: []StoreOffset{{0, next}}})
	}
	if len(left) != 4 || !slices.IsSortedFunc(left, func(a, b int) int { return b - a }) {
		t.Errorf("rows left after each commit: %v", left)
	}
	if len(content(t, s, 1)) != 1 {
		t.Error("a store without a retention was swept")
	}
	if at := s.LiveFrom(0); at != 8*minute+1 || s.LiveFrom(1) != 0 {
		t.Errorf("live from %d and %d", at, s.LiveFrom(1))
	}
}

// A restore leaves out what has expired by the end of what it reads, in small steps and in tables, and knows the time that
// the log has come to. Deletions and empty values are what they are in any store (H12).
func TestRestoreSkipsExpiredWindows(t *testing.T) {
	for _, kind := range []string{kindWindow, kindSession} {
		for _, n := range fewAndMany() {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				d := openDir(t, vfs.NewMem())
				defer closeDir(t, d)
				s, _ := openTask(t, d, windowSpec(kind))
				l := newLog(0, 0)
				l.batch = n / 4
				step := 20 * minute / n
				put := func(at int64, key string, time int64, value []byte) {
					l.put(at, windowKey(kind, key, time), value)
					r := l.records[at]
					r.Timestamp = time
					l.records[at] = r
				}
				for at := range n {
					put(at, fmt.Sprintf("k%d", at%7), at*step, []byte("v"))
				}
				put(n, "gone", 20*minute, []byte("v"))
				put(n+1, "gone", 20*minute, nil)
				put(n+2, "empty", 20*minute, []byte{})
				put(n+3, "never", 20*minute, nil)
				result := restoreAll(t, s, l)
				if s.Time(0) != 20*minute || result.Records != n+4 || result.Bulk != (n > 100_000) {
					t.Fatalf("time %d, %+v", s.Time(0), result)
				}
				want := rows{string(windowKey(kind, "empty", 20*minute)): ""}
				for at := range n {
					if at*step >= s.LiveFrom(0) {
						want[string(windowKey(kind, fmt.Sprintf("k%d", at%7), at*step))] = "v"
					}
				}
				if d := cmp.Diff(want, liveRows(t, s, 0)); d != "" {
					t.Fatal(d)
				}
				// A part that was written before later ones had moved the time stays until a commit sweeps it.
				for next := l.end + 1; next < l.end+1+n/sweepRows; next++ {
					apply(t, s, &Unit{Changelog: []StoreOffset{{0, next}}})
				}
				apply(t, s, &Unit{Changelog: []StoreOffset{{0, l.end + n}}})
				if got := content(t, s, 0); int64(len(got)) > int64(len(want))+2*minute/step {
					t.Errorf("%d rows, of which %d are live", len(got), len(want))
				}
			})
		}
	}
}

// The time goes with the bytes: a store that is discarded begins anew, one that was reset too.
func TestTimeGoesWithTheBytes(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	s, _ := openTask(t, d, windowSpec(kindWindow))
	if s.Time(0) != -1 || s.LiveFrom(0) != 0 {
		t.Error("a fresh store has a time")
	}
	apply(t, s, &Unit{Writes: []Write{windowWrite(kindWindow, "k", 9*minute, "v")}, Changelog: []StoreOffset{{0, 5}}})
	empty := newLog(500, 500)
	if r := restoreAll(t, s, empty); r.Discarded != DiscardBehindLog || s.Time(0) != -1 {
		t.Errorf("%+v, time %d", r, s.Time(0))
	}
	apply(t, s, &Unit{Writes: []Write{windowWrite(kindWindow, "k", 9*minute, "v")}, Changelog: []StoreOffset{{0, 501}}})
	closeDir(t, d)
	d = openDir(t, fs)
	if s, _ = openTask(t, d, windowSpec(kindWindow)); s.Time(0) != 9*minute {
		t.Errorf("after a restart: %d", s.Time(0))
	}
	closeDir(t, d)
	d = openDir(t, fs)
	defer closeDir(t, d)
	s, report := openTask(t, d, windowSpec(kindSession))
	if report.Changes["counts"] != StoreReset || s.Time(0) != -1 {
		t.Errorf("%v, time %d", report, s.Time(0))
	}
	spec := windowSpec(kindWindow)
	spec.ID.Partition, spec.Stores[0].Retention = 7, -1
	var mistake *SpecError
	if _, _, err := d.OpenTask(spec); !errors.As(err, &mistake) {
		t.Errorf("a negative retention: %v", err)
	}
}

// Check knows what the keys of a store must look like.
func TestCheckFindsKeysWithoutTimes(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, windowSpec(kindWindow))
	apply(t, s, &Unit{Writes: []Write{{Key: []byte("short"), Value: []byte("v")}}, Changelog: []StoreOffset{{0, 1}}})
	if err := s.Check(); err == nil {
		t.Error("a key without a time was not found")
	}
}

// A restore that a reader stops goes on with the time that it has come to.
func TestRestoreThatStopsKeepsItsTime(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, windowSpec(kindWindow))
	l := newLog(0, 0)
	for at := range int64(20) {
		l.put(at, windowKey(kindWindow, "k", at*minute), []byte("v"))
		r := l.records[at]
		r.Timestamp = at * minute
		l.records[at] = r
	}
	stop := errors.New("stop")
	l.fail = func(at int64) error {
		if at >= 10 {
			return stop
		}
		return nil
	}
	if _, err := Restore(context.Background(), s, 0, l, nil); !errors.Is(err, stop) || s.Time(0) != 9*minute {
		t.Fatal(err, s.Time(0))
	}
	l.fail = nil
	restoreAll(t, s, l)
	if s.Time(0) != 19*minute || len(liveRows(t, s, 0)) != 2 {
		t.Errorf("time %d, %v", s.Time(0), liveRows(t, s, 0))
	}
}
