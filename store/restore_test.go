package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

func restoreAll(t failer, s *TaskState, l *memoryLog) RestoreResult {
	t.Helper()
	result, err := Restore(context.Background(), s, 0, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := s.Offset(0); !ok || next != l.end || result.Next != l.end {
		t.Fatalf("offset %d, %v after the restore, result %+v; the log ends at %d", next, ok, result, l.end)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestRestoreDecisions(t *testing.T) {
	const age = time.Hour
	for _, c := range []struct {
		name  string
		local local
		log   LogRange
		want  decision
	}{
		{"empty store, empty log", local{empty: true}, LogRange{0, 0}, decision{DiscardNone, 0}},
		{"empty store, log with records", local{empty: true}, LogRange{5, 9}, decision{DiscardNone, 5}},
		{"H7: empty store, emptied log", local{empty: true}, LogRange{500, 500}, decision{DiscardNone, 500}},
		{"H7: offset before an emptied log", local{stored: true, next: 300}, LogRange{500, 500}, decision{DiscardBehindLog, 500}},
		{"entries without an offset", local{}, LogRange{2, 9}, decision{DiscardNoOffset, 2}},
		{"H9: behind the log", local{stored: true, next: 50}, LogRange{100, 200}, decision{DiscardBehindLog, 100}},
		{"at the start of the log", local{stored: true, next: 100}, LogRange{100, 200}, decision{DiscardNone, 100}},
		{"beyond the end", local{stored: true, next: 201}, LogRange{100, 200}, decision{DiscardBeyondEnd, 100}},
		{"at the end", local{stored: true, next: 200}, LogRange{100, 200}, decision{DiscardNone, 200}},
		{"old, at the end", local{stored: true, next: 200, age: 2 * age}, LogRange{100, 200}, decision{DiscardNone, 200}},
		{"old, with a delta", local{stored: true, next: 199, age: 2 * age}, LogRange{100, 200}, decision{DiscardTooOld, 100}},
		{"just young enough", local{stored: true, next: 199, age: age}, LogRange{100, 200}, decision{DiscardNone, 199}},
		{"recreated and empty", local{stored: true, next: 7}, LogRange{0, 0}, decision{DiscardBeyondEnd, 0}},
	} {
		if got := decide(c.local, c.log, age); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// H7: log start = log end > 0 must restore nothing and say where it is; an offset before it discards once.
func TestRestoreOfAnEmptiedChangelogEndsAtItsEnd(t *testing.T) {
	for _, bulk := range []int64{500, 200_000} {
		for _, stored := range []int64{-1, 300} {
			t.Run(fmt.Sprint(bulk, stored), func(t *testing.T) {
				d := openDir(t, vfs.NewMem())
				defer closeDir(t, d)
				s, _ := openTask(t, d, testSpec())
				want := DiscardNone
				if stored >= 0 {
					want = DiscardBehindLog
					apply(t, s, &Unit{Writes: writes(0, "a", "1"), Changelog: []StoreOffset{{0, stored}}})
				}
				l := newLog(bulk, bulk)
				got := restoreAll(t, s, l)
				if got.Discarded != want || got.Records != 0 || l.reads != 0 || len(content(t, s, 0)) != 0 {
					t.Errorf("%+v after %d reads, content %v", got, l.reads, content(t, s, 0))
				}
				if again := restoreAll(t, s, l); again.Discarded != DiscardNone {
					t.Errorf("discarded again: %+v", again)
				}
			})
		}
	}
}

// H8: with the local copy at the end, a restart must be done at once: ten times in a row.
func TestRestoreAtTheEndWaitsForNoRecord(t *testing.T) {
	fs, l := vfs.NewMem(), newLog(0, 0)
	l.fill(40, 10)
	l.end++ // a marker is the last thing in the log
	for i := range 10 {
		d := openDir(t, fs)
		s, report := openTask(t, d, testSpec())
		if i > 0 && report.Reason != Usable {
			t.Fatal(report)
		}
		var seen []lifecycle.Progress
		result, err := Restore(context.Background(), s, 0, l, func(p lifecycle.Progress) {
			p.Started = time.Time{}
			seen = append(seen, p)
		})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && (result.Records != 0 || l.reads != 1) {
			t.Fatalf("round %d: %+v, %d reads", i, result, l.reads)
		}
		if d := cmp.Diff([]lifecycle.Progress{{}}, seen); i > 0 && d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(l.replay(t, 0), content(t, s, 0)); d != "" {
			t.Fatal(d)
		}
		closeDir(t, d)
	}
}

// H9: the stale offset goes with the data, before any new data; a restore that was killed goes on from what it has.
func TestRestoreBehindTheLogDiscardsOnceAndGoesOn(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(0, "stale", "1"), Changelog: []StoreOffset{{0, 50}}})
	l := newLog(100, 100)
	l.fill(100, 30)
	killed := errors.New("killed")
	l.fail = func(at int64) error {
		if at >= 140 {
			return killed
		}
		return nil
	}
	result, err := Restore(context.Background(), s, 0, l, nil)
	var ce *ChangelogError
	if !errors.Is(err, killed) || !errors.As(err, &ce) || result.Discarded != DiscardBehindLog {
		t.Fatalf("%+v, %v", result, err)
	}
	closeDir(t, d)

	d = openDir(t, fs)
	defer closeDir(t, d)
	s, _ = openTask(t, d, testSpec())
	l.fail = nil
	result = restoreAll(t, s, l)
	if result.From != 140 || result.Discarded != DiscardNone {
		t.Errorf("the second start began at %d and discarded: %v", result.From, result.Discarded)
	}
	if d := cmp.Diff(l.replay(t, 100), content(t, s, 0)); d != "" {
		t.Error(d)
	}
}

// H12: null deletes, zero-length stays.
func TestRestoreKeepsNullAndEmptyApart(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		t.Run(fmt.Sprint("bulk ", bulk), func(t *testing.T) {
			d := openDir(t, vfs.NewMem())
			defer closeDir(t, d)
			s, _ := openTask(t, d, testSpec())
			l := newLog(0, 0)
			if bulk {
				for at := range int64(60_000) {
					l.put(at, fmt.Appendf(nil, "x%d", at%100), nil)
				}
				l.batch = 5000
			}
			at := l.end
			for i, kv := range [][2][]byte{{[]byte("a"), []byte("1")}, {[]byte("b"), []byte("2")}, {[]byte("a"), nil}, {[]byte("b"), {}}, {[]byte("c"), nil}, {{}, {}}} {
				l.put(at+int64(i), kv[0], kv[1])
			}
			if result := restoreAll(t, s, l); result.Bulk != bulk {
				t.Fatalf("%+v", result)
			}
			if d := cmp.Diff(rows{"b": "", "": ""}, content(t, s, 0)); d != "" {
				t.Error(d)
			}
			if v, _, ok, err := s.Get(0, []byte("b")); v == nil || !ok || err != nil {
				t.Errorf("b is %v, %v, %v; want an empty value", v, ok, err)
			}
		})
	}
}

func TestRestoreOfANullKeyIsATypedErrorWithItsOffset(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	l := newLog(0, 0)
	l.fill(25, 5)
	l.put(25, nil, []byte("v"))
	_, err := Restore(context.Background(), s, 0, l, nil)
	var ce *ChangelogError
	if !errors.As(err, &ce) || !errors.Is(err, ErrNullKey) || ce.Offset != 25 {
		t.Fatal(err)
	}
	if next, _ := s.Offset(0); next != 20 {
		t.Errorf("offset %d, want that of the last whole batch", next)
	}
}

// fewAndMany are numbers of records that are restored in small steps, and in tables; short tests leave the many out.
func fewAndMany() []int64 {
	if testing.Short() {
		return []int64{400}
	}
	return []int64{400, 120_000}
}

func TestRestoreInBulkEqualsAReplay(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(1, "other", "stays"), Position: record.Position{source: 1}})
	l := newLog(7, 7)
	l.fill(120_000, 20_000)
	l.batch = 1000
	l.put(l.end, []byte("last"), []byte("x"), record.Header{Key: record.PositionHeader, Value: record.EncodePosition(record.Position{source: 42})})
	l.put(l.end, []byte("bad"), []byte("y"), record.Header{Key: record.PositionHeader, Value: []byte{9}})
	result := restoreAll(t, s, l)
	if !result.Bulk || result.Records != 120_002 || result.UnreadablePositions != 1 || s.Position()[source] != 42 {
		t.Errorf("%+v, position %v", result, s.Position())
	}
	// A delta on top of the tables.
	l.put(l.end, []byte("k000000"), []byte("after"))
	l.put(l.end, []byte("k000001"), nil)
	restoreAll(t, s, l)
	want := l.replay(t, 0)
	closeDir(t, d)
	d = openDir(t, fs)
	defer closeDir(t, d)
	s, _ = openTask(t, d, testSpec())
	if d := cmp.Diff(want, content(t, s, 0)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(rows{"other": "stays"}, content(t, s, 1)); d != "" {
		t.Error(d)
	}
	names, err := fs.List("state/app/1_3")
	if err != nil || len(names) != 1 {
		t.Errorf("%v, %v: tables were left behind", names, err)
	}
}

func TestRestoreThatRetentionOvertakesOnceGoesOnAndTwiceGivesUp(t *testing.T) {
	for _, times := range []int{1, 2} {
		d := openDir(t, vfs.NewMem())
		s, _ := openTask(t, d, testSpec())
		l := newLog(0, 0)
		l.fill(100, 10)
		left := times
		l.fail = func(at int64) error {
			if at == l.start+20 && left > 0 {
				left--
				l.trim(l.start + 40)
			}
			return nil
		}
		result, err := Restore(context.Background(), s, 0, l, nil)
		if times == 1 && (err != nil || result.Discarded != DiscardBehindLog) {
			t.Errorf("%+v, %v", result, err)
		}
		if times == 2 && !errors.Is(err, ErrChangelogOutrun) {
			t.Errorf("%+v, %v", result, err)
		}
		if times == 1 {
			if d := cmp.Diff(l.replay(t, 0), content(t, s, 0)); d != "" {
				t.Error(d)
			}
		}
		closeDir(t, d)
	}
}

func TestRestoreOfOldStateStartsAgain(t *testing.T) {
	now, advance := clock(time.UnixMilli(1_000_000_000_000))
	d := openDir(t, vfs.NewMem(), func(o *DirectoryOptions) { o.Now = now })
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	l := newLog(0, 0)
	l.put(0, []byte("a"), []byte("1"))
	restoreAll(t, s, l)
	advance(22 * time.Hour)
	l.put(1, []byte("b"), []byte("1"))
	if got := restoreAll(t, s, l); got.Discarded != DiscardNone {
		t.Errorf("after 22 h: %+v", got)
	}
	advance(24 * time.Hour)
	l.trim(0)
	delete(l.records, 0) // deleted and compacted away, tombstone and all
	l.put(2, []byte("c"), []byte("1"))
	if got := restoreAll(t, s, l); got.Discarded != DiscardTooOld {
		t.Errorf("after 24 h: %+v", got)
	}
	if d := cmp.Diff(rows{"b": "1", "c": "1"}, content(t, s, 0)); d != "" {
		t.Error(d)
	}
}

func TestRestoreOfARevokedLeaseWritesNothing(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	old, err := s.Lease(1)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(0, 0)
	l.fill(100, 10)
	l.fail = func(at int64) error {
		if at == 50 {
			_, err := s.Lease(2)
			return err
		}
		return nil
	}
	if _, err := old.Restore(context.Background(), 0, l, nil); !errors.Is(err, ErrLeaseRevoked) {
		t.Fatal(err)
	}
	if len(content(t, s, 0)) != 0 {
		t.Error("it has written")
	}
}

func TestRestoreEndsWithItsContext(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the task was revoked")
	cancel(cause)
	if _, err := Restore(ctx, s, 0, newLog(0, 100), nil); !errors.Is(err, cause) {
		t.Error(err)
	}
	var spec *SpecError
	if _, err := Restore(context.Background(), s, 7, newLog(0, 100), nil); !errors.As(err, &spec) {
		t.Error(err)
	}
}

// idleReader comes back without having read anything.
type idleReader struct{ *memoryLog }

func (idleReader) Read(context.Context, record.TopicPartition, int64, int64, bool, func(broker.Batch) error) error {
	return nil
}

func TestRestoreByAReaderThatStopsShortIsAnError(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	if _, err := Restore(context.Background(), s, 0, idleReader{newLog(0, 100)}, nil); !errors.Is(err, ErrChangelogEnded) {
		t.Error(err)
	}
}
