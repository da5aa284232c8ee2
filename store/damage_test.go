package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/record"
)

// flips names the variable that says at how many places the next test damages a state, and flipSeed the one that says where.
const (
	flips    = "MILLRACE_TEST_FLIPS"
	flipSeed = "MILLRACE_TEST_FLIP_SEED"
)

func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// Whatever is damaged in the files of a state, and wherever: each value that it gives is right for the offset that it says it
// is at, or there is a typed failure instead, and after at most two more openings it is whole again.
func TestDamageAnywhereNeverGivesAWrongValue(t *testing.T) {
	few := 30
	if testing.Short() {
		few = 8
	}
	places := fromEnvironment(flips, few)
	if !ownProcess(t, time.Minute+time.Duration(places)*time.Second) {
		return
	}
	v := newVictim(t)
	seed := fromEnvironment(flipSeed, 1)
	random := rand.New(rand.NewPCG(uint64(seed), 9))
	for i := range places {
		p := v.place(random)
		hang := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("it hangs: place %d of seed %d: %s", i, seed, p)) })
		v.suffers(t, p)
		hang.Stop()
		if t.Failed() {
			t.Fatalf("place %d of seed %d: %s", i, seed, p)
		}
	}
	t.Logf("places=%d bytes=%d wrong=0 %v", places, v.size, v.tally)
	for _, must := range []string{"usable", "read failed", "moved aside", "whole"} {
		if v.tally[must] == 0 && places >= 30 {
			t.Errorf("%q never happened: %v", must, v.tally)
		}
	}
}

// victim is a closed state on a real disk, with all its bytes and what they mean.
type victim struct {
	dir string
	// root is the state directory of the present place, of which number is the last part.
	root   string
	number int
	files  map[string][]byte
	names  []string
	size   int
	log    *memoryLog
	tally  map[string]int
}

// offsets are how many the changelog has, unit how many of them one unit, and one table, takes up.
const (
	offsets, unit = 6000, 300
	keyCount      = 900
)

// newVictim makes a state of many tables, some of them compacted, in a directory that was opened more than once.
func newVictim(t *testing.T) *victim {
	dir := t.TempDir()
	v := &victim{dir: dir, root: filepath.Join(dir, "0"), files: map[string][]byte{}, log: newLog(0, 0), tally: map[string]int{}}
	v.log.fill(offsets, keyCount)
	random := rand.New(rand.NewPCG(1, 1))
	for at := range v.log.end { // in order, so that the same seed meets the same bytes
		r := v.log.records[at]
		if r.Value != nil {
			r.Value = fmt.Appendf(nil, "%d %x%x", at, random.Uint64(), random.Uint64())
		}
		r.Headers = record.Headers{{Key: record.PositionHeader, Value: record.EncodePosition(record.Position{source: at + 1})}}
		v.log.records[at] = r
	}
	for from := int64(0); from < v.log.end; {
		d := v.open(t)
		s, _ := openTask(t, d, testSpec())
		for range 5 {
			to := from + unit
			var w []Write
			for at := from; at < to; at++ {
				r := v.log.records[at]
				w = append(w, Write{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
			}
			apply(t, s, &Unit{Writes: sortedWrites(w), Changelog: []StoreOffset{{0, to}}, Position: map[record.TopicPartition]int64{source: to}, WallClock: time.Now().UnixMilli()})
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			from = to
		}
		closeDir(t, d)
	}
	err := filepath.WalkDir(v.task(), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(v.task(), path)
		v.files[name], v.size = b, v.size+len(b)
		v.names = append(v.names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(v.names)
	return v
}

// sortedWrites keeps the last write of each key, in key order, as a unit has them.
func sortedWrites(w []Write) (out []Write) {
	var all []change
	for i, x := range w {
		all = append(all, change{x.Key, x.Value, x.Timestamp, i})
	}
	for _, c := range lastOfEach(all) {
		out = append(out, Write{Key: c.key, Value: c.value, Timestamp: c.timestamp})
	}
	return out
}

func (v *victim) task() string { return filepath.Join(v.root, "app", testSpec().ID.String()) }

func (v *victim) open(t *testing.T) *Directory {
	t.Helper()
	d, err := OpenDirectory(v.root, "app", DirectoryOptions{FS: vfs.Default, CacheBytes: 4 << 20, ErrorPatience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// place is where, how and when a state is damaged.
type place struct {
	file string
	at   int
	how  string
	bit  byte
	// late damages it behind the back of whoever has it open.
	late bool
}

func (p place) String() string {
	return fmt.Sprintf("%s at %d of %s (bit %d, late %t)", p.how, p.at, p.file, p.bit, p.late)
}

// place draws a byte of all there are.
func (v *victim) place(random *rand.Rand) place {
	p := place{at: random.IntN(v.size), bit: byte(random.IntN(8)), late: random.IntN(4) == 0}
	p.how = [...]string{"flip", "flip", "flip", "flip", "flip", "flip", "zeroes", "truncation"}[random.IntN(8)]
	for _, p.file = range v.names {
		if p.at < len(v.files[p.file]) {
			return p
		}
		p.at -= len(v.files[p.file])
	}
	panic("unreachable")
}

// damaged is what a file is after that.
func (p place) damaged(b []byte) []byte {
	b = slices.Clone(b)
	switch p.how {
	case "truncation":
		return b[:p.at]
	case "zeroes":
		clear(b[p.at:min(len(b), p.at+64)])
	default:
		b[p.at] ^= 1 << p.bit
	}
	return b
}

func (v *victim) write(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join(v.task(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// suffers damages the state at one place, and reads it until it is whole again.
func (v *victim) suffers(t *testing.T, p place) {
	t.Helper()
	// Each in a directory of its own: an engine that is abandoned keeps its lock in this process.
	defer os.RemoveAll(v.root)
	v.number++
	v.root = filepath.Join(v.dir, strconv.Itoa(v.number))
	for name, b := range v.files {
		v.write(t, name, b)
	}
	hurt := func() { v.write(t, p.file, p.damaged(v.files[p.file])) }
	if !p.late {
		hurt()
	}
	for round := range 3 {
		d := v.open(t)
		s, report, err := d.OpenTask(testSpec())
		if round == 0 && p.late {
			hurt()
		}
		if err == nil {
			v.tally[report.Reason.String()]++
			if report.MovedAside() {
				v.tally["because "+report.Why.String()]++
			}
			err = v.reads(t, s)
		}
		if err == nil {
			err = v.restores(t, s)
		}
		err = errors.Join(err, d.Close())
		v.typed(t, err)
		if err == nil {
			v.tally["whole"]++
			return
		}
	}
	t.Errorf("it is not whole after three openings")
}

// reads holds everything that the state gives against what it should be as of its offset.
func (v *victim) reads(t *testing.T, s *TaskState) error {
	t.Helper()
	next, _ := s.Offset(0)
	if at := s.Position()[source]; at != next {
		t.Errorf("position %d with offset %d", at, next)
	}
	before := *v.log
	before.end = next
	want := before.replay(t, 0)
	var failed error
	for i := 0; i < keyCount; i += 11 {
		key := fmt.Sprintf("k%06d", i)
		switch got, _, ok, err := s.Get(0, []byte(key)); {
		case err != nil:
			failed = err
		case ok != (want[key] != "") || string(got) != want[key]:
			t.Errorf("Get(%s) = %q, %t as of %d: want %q", key, got, ok, next, want[key])
		}
	}
	got := rows{}
	for e, err := range s.Scan(0, nil, nil, next%(2*unit) == 0) {
		if err != nil {
			v.tally["read failed"]++
			return err
		}
		if got[string(e.Key)] = string(e.Value); want[string(e.Key)] != string(e.Value) {
			t.Errorf("a scan gives %s=%q as of %d: want %q", e.Key, e.Value, next, want[string(e.Key)])
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a scan that did not fail left something out, as of %d: %s", next, d)
	}
	if failed != nil {
		v.tally["read failed"]++
	}
	return failed
}

// restores brings it to the end of the changelog, as the next start of the task does.
func (v *victim) restores(t *testing.T, s *TaskState) error {
	t.Helper()
	if _, err := Restore(context.Background(), s, 0, v.log, nil); err != nil {
		v.tally["restore failed"]++
		return err
	}
	if next, _ := s.Offset(0); next != v.log.end {
		t.Errorf("restored to %d of %d", next, v.log.end)
	}
	return v.reads(t, s)
}

// typed: whoever opens or asks can tell what it is.
func (v *victim) typed(t *testing.T, err error) {
	t.Helper()
	var engine *EngineError
	var dir *DirectoryError
	if err != nil && !errors.As(err, &engine) && !errors.As(err, &dir) {
		t.Errorf("not typed: %T %v", err, err)
	}
}
