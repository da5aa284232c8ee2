package task_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// counting is a word count over a few partitions whose log is known. The oracle is arithmetic: what is committed is the
// count of the words before the committed positions, no more and no less.
type counting struct {
	t       *rapid.T
	task    *task.Task
	state   *tasktest.State
	out     *tasktest.Producer
	logs    map[record.TopicPartition][]record.Raw
	fetched map[record.TopicPartition]int64
	unit    *task.Unit
	sure    bool // the unit was Committed
	failAt  int  // the record that fails, 0 for none
	// added, given and lost are fetch credit: handed to the task, given back, thrown away by Rewind.
	added, given, lost int64
}

const countStep = 2 // every record takes two offsets: the second one is a marker

func newCounting(t *rapid.T) *counting {
	c := &counting{t: t, logs: map[record.TopicPartition][]record.Raw{}, fetched: map[record.TopicPartition]int64{}}
	c.state, c.out = tasktest.NewState(1), tasktest.NewProducer(nil)
	cfg := task.Config{
		Stores: []task.StoreConfig{{Name: "counts", Changelog: tp("changelog", 0)}}, State: c.state, Producer: c.out,
		CacheBytes: rapid.SampledFrom([]int64{0, 1500, 1 << 20}).Draw(t, "cache"), MaxIdle: -1,
		Chain: func(h topology.Host) (task.Chain, error) { return &failing{counter{counts: h.Store("counts")}, c}, nil },
	}
	for p := range rapid.Int32Range(1, 3).Draw(t, "partitions") {
		source := tp("in", p)
		cfg.Sources = append(cfg.Sources, source)
		c.fetched[source] = 0
		for i := range 40 {
			word := fmt.Appendf(nil, "w%d", rapid.IntRange(0, 12).Draw(t, "word"))
			c.logs[source] = append(c.logs[source], record.Raw{Key: word, Offset: int64(i) * countStep, Timestamp: rapid.Int64Range(0, 50).Draw(t, "time")})
		}
	}
	k, err := task.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.task = k
	k.Restoring()
	at := broker.Offsets{}
	for source := range c.fetched {
		at[source] = broker.Offset{}
	}
	c.start(at)
	return c
}

// failing is a counter whose processor fails at a chosen record, after it has changed the store.
type failing struct {
	counter
	c *counting
}

func (f *failing) Source(string) (func(*record.Raw) error, error) {
	return func(r *record.Raw) error {
		if err := f.process(r); err != nil {
			return err
		}
		if f.c.failAt--; f.c.failAt == 0 {
			panic("chosen")
		}
		return nil
	}, nil
}

func (c *counting) start(at broker.Offsets) {
	if err := c.task.Start(now, at); err != nil {
		c.t.Fatal(err)
	}
	for source, o := range at {
		c.fetched[source] = o.At
	}
	c.unit, c.sure, c.failAt = nil, false, 0
}

func (c *counting) source() record.TopicPartition {
	return tp("in", rapid.Int32Range(0, int32(len(c.fetched))-1).Draw(c.t, "source"))
}

// Add brings the next records, or none and only a marker; and now and then a batch that is stale.
func (c *counting) Add(*rapid.T) {
	source := c.source()
	from := c.fetched[source]
	log := c.logs[source][(from+1)/countStep:]
	n := min(len(log), rapid.IntRange(0, 6).Draw(c.t, "records"))
	b := broker.Batch{Source: source, Records: log[:n], From: from, Bytes: 7 + n, HighWatermark: 80, LastStable: 80}
	switch {
	case n > 0:
		b.Next = log[n-1].Offset + 1 + rapid.Int64Range(0, 1).Draw(c.t, "marker")
	case from%countStep == 1:
		b.Next = from + 1
	default:
		b.Next = from
	}
	if rapid.IntRange(0, 4).Draw(c.t, "stale") == 0 {
		stale := b
		stale.From--
		if c.task.Add(stale) {
			c.t.Fatal("a stale batch was accepted")
		}
	}
	if !c.task.Add(b) {
		c.t.Fatal("a batch was refused")
	}
	c.added += int64(b.Bytes)
	c.fetched[source] = b.Next
}

func (c *counting) Process(*rapid.T) {
	budget := rapid.IntRange(1, 12).Draw(c.t, "budget")
	n, err := c.task.Process(now, budget)
	if err != nil || n > budget {
		c.t.Fatal(n, err)
	}
}

// Fail lets a processor panic. The task must refuse to go on and go back.
func (c *counting) Fail(*rapid.T) {
	c.failAt = rapid.IntRange(1, 5).Draw(c.t, "fail at")
	_, err := c.task.Process(now, 10)
	if c.failAt > 0 { // there were not so many records
		c.failAt = 0
		return
	}
	if err == nil {
		c.t.Fatal("no error")
	}
	if _, err := c.task.Prepare(now); err == nil {
		c.t.Fatal("a failed task prepared a commit")
	}
	c.Rewind(nil)
}

func (c *counting) Credits(*rapid.T) {
	c.task.Credits(func(source record.TopicPartition, bytes int) { c.given += int64(bytes) })
}

func (c *counting) Prepare(*rapid.T) {
	if c.unit != nil {
		return
	}
	u, err := c.task.Prepare(now)
	if err != nil {
		c.t.Fatal(err)
	}
	c.unit = u
}

func (c *counting) Commit(*rapid.T) {
	if c.unit != nil && !c.sure {
		c.task.Committed(c.unit)
		c.sure = true
	}
}

func (c *counting) Apply(*rapid.T) {
	if c.sure {
		c.apply()
		c.task.Applied(c.unit)
		c.unit, c.sure = nil, false
	}
}

// apply writes the unit, after which the state must be what its positions say.
func (c *counting) apply() {
	c.state.Apply(c.unit)
	want := map[string]uint64{}
	for source, o := range c.unit.Offsets {
		if c.unit.Position[source] != o.At {
			c.t.Fatalf("position %v, offsets %v", c.unit.Position, c.unit.Offsets)
		}
		latest := int64(-1)
		for _, r := range c.logs[source] {
			if r.Offset < o.At {
				want[string(r.Key)]++
				latest = max(latest, r.Timestamp)
			}
		}
		if m, ok := task.ParseMetadata(o.Metadata); !ok || m.PartitionTime != latest {
			c.t.Fatalf("partition time of %s at %d: %v, want %d", source, o.At, m, latest)
		}
	}
	got := map[string]uint64{}
	for word, row := range c.state.Stores[0] {
		got[word] = binary.BigEndian.Uint64(row.Value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Fatalf("at %v: %s", c.unit.Offsets, diff)
	}
}

// Rewind is a commit that failed, or whose answer came and whose unit is on its way to the state.
func (c *counting) Rewind(*rapid.T) {
	if c.sure {
		c.apply()
	}
	c.Credits(nil)
	c.lost += c.task.Buffered()
	c.start(c.task.Rewind())
}

// Check is the invariant: every byte of credit is somewhere, and the task's accounts are right.
func (c *counting) Check(*rapid.T) {
	if err := task.Audit(c.task); err != nil {
		c.t.Fatal(err)
	}
	c.Credits(nil)
	if sum := c.given + c.lost + c.task.Buffered(); sum != c.added {
		c.t.Fatalf("credit: added %d; given back %d, thrown away %d, buffered %d", c.added, c.given, c.lost, c.task.Buffered())
	}
}

// finish reads everything that is left and commits it.
func (c *counting) finish() {
	c.Commit(nil)
	c.Apply(nil)
	for source, log := range c.logs {
		rest := log[(c.fetched[source]+1)/countStep:]
		c.task.Add(broker.Batch{Source: source, From: c.fetched[source], Next: 80, Records: rest, HighWatermark: 80})
	}
	if _, err := c.task.Process(now, 1_000); err != nil {
		c.t.Fatal(err)
	}
	c.Prepare(nil)
	c.Commit(nil)
	want := maps.Clone(c.unit.Position)
	for source := range c.logs {
		want[source] = 80
	}
	if diff := cmp.Diff(want, c.unit.Position); diff != "" {
		c.t.Fatal(diff)
	}
	c.apply()
}

// TestCountLosesAndDoublesNothing lets batches, commits and failures come in any order.
func TestCountLosesAndDoublesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCounting(t)
		t.Repeat(map[string]func(*rapid.T){
			"Add": c.Add, "Add2": c.Add, "Process": c.Process, "Fail": c.Fail, "Credits": c.Credits, "Prepare": c.Prepare,
			"Commit": c.Commit, "Apply": c.Apply, "Rewind": c.Rewind, "": c.Check,
		})
		c.finish()
	})
}
