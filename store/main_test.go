package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// abandons names the variable under which a test runs that abandons an engine. Its goroutines stay by design (see
// engine.park), so such a test has a process of its own, and goleak can be strict in this one.
const abandons = "MILLRACE_TEST_ABANDONS"

func TestMain(m *testing.M) {
	if os.Getenv(abandons) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

// inOwnProcess reports whether the test should go on here; else it has run in a process of its own.
func inOwnProcess(t *testing.T) bool { return ownProcess(t, time.Minute) }

// ownProcess is inOwnProcess with the time that the test may take. What the test logs is logged.
func ownProcess(t *testing.T, limit time.Duration) bool {
	t.Helper()
	if os.Getenv(abandons) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+limit.String(), "-test.v", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), abandons+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

// rows is a store's content as a test compares it.
type rows map[string]string

var (
	source    = record.TopicPartition{Topic: "lines", Partition: 3}
	changelog = record.TopicPartition{Topic: "app-counts-changelog", Partition: 3}
)

func testSpec() TaskSpec {
	return TaskSpec{ID: record.TaskID{SubTopology: 1, Partition: 3}, ClusterID: "cluster", Partition: 3, Stores: []StoreSpec{
		{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "int64", Changelog: changelog.Topic, TopicID: "t1"},
		{Name: "names", Kind: "key-value", KeyCodec: "string", ValueCodec: "string"},
	}}
}

// failer is what a test and a property have in common.
type failer = rapid.TB

func openDir(t failer, fs vfs.FS, change ...func(*DirectoryOptions)) *Directory {
	t.Helper()
	opts := DirectoryOptions{FS: fs, CacheBytes: 8 << 20}
	for _, f := range change {
		f(&opts)
	}
	d, err := OpenDirectory("state", "app", opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openTask(t failer, d *Directory, spec TaskSpec) (*TaskState, OpenReport) {
	t.Helper()
	s, report, err := d.OpenTask(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s, report
}

func closeDir(t failer, d *Directory) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// content reads a whole store forwards and backwards and by key, which must agree.
func content(t failer, s *TaskState, store int) rows {
	t.Helper()
	got, order := rows{}, []string{}
	for e, err := range s.Scan(store, nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = string(e.Value)
		order = append(order, string(e.Key))
		if v, ts, ok, err := s.Get(store, e.Key); err != nil || !ok || string(v) != string(e.Value) || ts != e.Timestamp {
			t.Fatalf("Get(%q) = %q, %d, %v, %v; Scan gave %q, %d", e.Key, v, ts, ok, err, e.Value, e.Timestamp)
		}
	}
	var back []string
	for e := range s.Scan(store, nil, nil, true) {
		back = append(back, string(e.Key))
	}
	slices.Reverse(back)
	if !slices.IsSorted(order) || !slices.Equal(order, back) {
		t.Fatalf("forwards %q, backwards %q", order, back)
	}
	return got
}

// units makes the writes of a store from pairs; a value of "-" deletes.
func writes(store int, pairs ...string) (w []Write) {
	for i := 0; i < len(pairs); i += 2 {
		next := Write{Store: store, Key: []byte(pairs[i]), Value: []byte(pairs[i+1])}
		if pairs[i+1] == "-" {
			next.Value = nil
		}
		w = append(w, next)
	}
	return w
}

func apply(t failer, s *TaskState, u *Unit) {
	t.Helper()
	if err := s.Apply(u); err != nil {
		t.Fatal(err)
	}
}

// memoryLog is a changelog in memory. Offsets without a record are markers or compacted.
type memoryLog struct {
	start, end int64
	records    map[int64]record.Raw
	// batch is how many offsets one batch covers.
	batch int64
	reads int
	// fail, if set, is asked before each batch.
	fail func(at int64) error
}

func newLog(start, end int64) *memoryLog {
	return &memoryLog{start: start, end: end, batch: 10, records: map[int64]record.Raw{}}
}

func (l *memoryLog) put(at int64, key, value []byte, headers ...record.Header) {
	l.records[at] = record.Raw{Key: key, Value: value, Timestamp: 1000 + at, Offset: at, Headers: headers}
	l.end = max(l.end, at+1)
}

// trim moves the start as retention does.
func (l *memoryLog) trim(start int64) {
	l.start = start
	maps.DeleteFunc(l.records, func(at int64, _ record.Raw) bool { return at < start })
}

func (l *memoryLog) replay(t failer, from int64) rows {
	model := rows{}
	for at := max(from, l.start); at < l.end; at++ {
		if r, ok := l.records[at]; ok {
			if r.Value == nil {
				delete(model, string(r.Key))
			} else {
				model[string(r.Key)] = string(r.Value)
			}
		}
	}
	return model
}

func (l *memoryLog) Ends(_ context.Context, tps []record.TopicPartition) (map[record.TopicPartition]LogRange, error) {
	if len(tps) != 1 || tps[0] != changelog {
		return nil, fmt.Errorf("asked for %v", tps)
	}
	return map[record.TopicPartition]LogRange{changelog: {l.start, l.end}}, nil
}

var errLogWait = errors.New("waits for a record that will never come")

func (l *memoryLog) Read(ctx context.Context, tp record.TopicPartition, from, to int64, committed bool, fn func(broker.Batch) error) error {
	l.reads++
	if from >= l.end {
		return errLogWait
	}
	for from < to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l.fail != nil {
			if err := l.fail(from); err != nil {
				return err
			}
		}
		if from < l.start || from > l.end {
			return &broker.Error{Op: broker.OpFetch, Code: broker.CodeOffsetOutOfRange, Class: broker.Fatal, Source: tp}
		}
		b := broker.Batch{Source: tp, From: from, Next: min(from+l.batch, l.end), HighWatermark: l.end, LogStart: l.start}
		for at := from; at < b.Next; at++ {
			if r, ok := l.records[at]; ok {
				b.Records = append(b.Records, r)
			}
		}
		if err := fn(b); err != nil {
			return err
		}
		from = b.Next
	}
	return nil
}

// fill writes n records over some keys, a tenth of them deletions.
func (l *memoryLog) fill(n, keyCount int64) {
	for at := l.start; at < l.start+n; at++ {
		key := fmt.Appendf(nil, "k%06d", at*7919%keyCount)
		if at%10 == 9 {
			l.put(at, key, nil)
		} else {
			l.put(at, key, fmt.Appendf(nil, "v%d", at))
		}
	}
}

func clock(start time.Time) (now func() time.Time, advance func(time.Duration)) {
	at := start
	return func() time.Time { return at }, func(d time.Duration) { at = at.Add(d) }
}
