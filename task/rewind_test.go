package task_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// The ledger is a processor whose store holds, for each key, the offsets of its records: lost, doubled or reordered ones
// can be read off. It deletes, reads over all keys, and has a punctuation on stream time that writes too.
type ledger struct {
	ctx  *topology.Context[string, string]
	rows *topology.KeyValue[string, string]
}

const tickMS = 10

func (l *ledger) Init(ctx *topology.Context[string, string]) (err error) {
	l.ctx = ctx
	if l.rows, err = rows.In(ctx); err != nil {
		return err
	}
	_, err = ctx.Schedule(tickMS, topology.StreamTime, func(now int64) error { return l.note("tick", now) })
	return err
}

// note appends a number to a key's row and forwards the row.
func (l *ledger) note(key string, n int64) error {
	row, _, err := l.rows.Get(key)
	if err != nil {
		return err
	}
	row += fmt.Sprint(n, ";")
	if err := l.rows.Put(key, row, 0); err != nil {
		return err
	}
	return l.ctx.Forward(record.New(key, row, 0))
}

func (l *ledger) Process(r record.Record[string, string]) error {
	_, offset, _ := l.ctx.Current()
	switch r.Value {
	case "delete":
		return l.rows.Delete(r.Key)
	case "all":
		text := ""
		for e, err := range l.rows.All() {
			if err != nil {
				return err
			}
			text += e.Key + "=" + e.Value + " "
		}
		return l.ctx.Forward(record.New("all", text, 0))
	}
	return l.note(r.Key, offset)
}

func (l *ledger) Close() error { return nil }

var (
	rows     = topology.NewKeyValueStore("rows", codec.String, codec.String)
	rewindIn = tp("in", 0)
)

// fold is the ledger without any of it: what a task that reads the log from the beginning, once, has after each record.
type fold struct {
	rows       map[string]string
	out        []string
	streamTime int64
	tick       int64
}

func (f *fold) note(key string, n int64) {
	f.rows[key] += fmt.Sprint(n, ";")
	f.out = append(f.out, key+": "+f.rows[key])
}

func (f *fold) take(r *record.Raw) {
	switch key := string(r.Key); string(r.Value) {
	case "delete":
		delete(f.rows, key)
	case "all":
		text := "all: "
		for _, k := range slices.Sorted(maps.Keys(f.rows)) {
			text += k + "=" + f.rows[k] + " "
		}
		f.out = append(f.out, text)
	default:
		f.note(key, r.Offset)
	}
	if f.streamTime = max(f.streamTime, r.Timestamp); f.streamTime >= f.tick {
		f.note("tick", f.streamTime)
		f.tick = (f.streamTime/tickMS + 1) * tickMS
	}
}

// transactions is a task under exactly once: the records of an interval count when its transaction is committed, and not
// before. There is one state, and nothing ever wipes it.
type transactions struct {
	t     *rapid.T
	task  *task.Task
	host  topology.Host
	cfg   task.Config
	state *tasktest.State
	log   []record.Raw
	at    int64 // what the task has processed
	// active and frozen are the outputs of the two intervals, committed those that count.
	active, frozen, committed []string
	unit                      *task.Unit
	sure, applied             bool
	number                    uint64
	offsets                   broker.Offsets // of the last commit, as Kafka has them
}

// Append implements task.Producer.
func (x *transactions) Append(to record.TopicPartition, r *record.Raw) error {
	if to.Topic == "out" {
		x.active = append(x.active, fmt.Sprintf("%s: %s", r.Key, r.Value))
	}
	return nil
}

// Partitions implements task.Producer.
func (x *transactions) Partitions(string) (int32, error) { return 1, nil }

func newTransactions(t *rapid.T) *transactions {
	x := &transactions{t: t, state: tasktest.NewState(1), offsets: broker.Offsets{rewindIn: {Metadata: "somebody else's"}}}
	clock := int64(0)
	for i := range int64(60) {
		clock += rapid.Int64Range(-3, 9).Draw(t, "step")
		r := record.Raw{Key: fmt.Appendf(nil, "k%d", rapid.IntRange(0, 3).Draw(t, "key")), Offset: i, Timestamp: max(0, clock)}
		r.Value = []byte(rapid.SampledFrom([]string{"note", "note", "note", "delete", "all"}).Draw(t, "what"))
		x.log = append(x.log, r)
	}
	b := topology.NewBuilder()
	supply := func() topology.Processor[string, string, string, string] { return &ledger{} }
	topology.To(topology.Process(topology.From(b, topology.NewTopic("in", codec.String, codec.String)), "ledger", supply, rows), topology.NewTopic("out", codec.String, codec.String))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	x.cfg = task.Config{Sources: []record.TopicPartition{rewindIn}, State: x.state, Producer: x, CacheBytes: rapid.SampledFrom([]int64{0, 900, 2000, 1 << 20}).Draw(t, "cache"),
		Stores: []task.StoreConfig{{Name: "rows", Changelog: tp("changelog", 0)}}, Chain: func(h topology.Host) (task.Chain, error) {
			x.host = h
			return top.SubTopologies[0].Instantiate(h)
		}}
	x.create()
	return x
}

// create is a new task, as after a crash or a move.
func (x *transactions) create() {
	var err error
	if x.task, err = task.New(x.cfg); err != nil {
		x.t.Fatal(err)
	}
	x.task.Restoring()
	x.start(x.offsets)
}

func (x *transactions) start(at broker.Offsets) {
	x.task.Attach(x.state)
	if err := x.task.Start(now, at); err != nil {
		x.t.Fatal(err)
	}
	x.at = at[rewindIn].At
	x.active, x.frozen, x.unit, x.sure, x.applied = nil, nil, nil, false, false
}

// Process takes some records, one a turn, so that punctuations come where the fold has them.
func (x *transactions) Process(*rapid.T) {
	for range rapid.IntRange(1, 6).Draw(x.t, "records") {
		if x.at == int64(len(x.log)) {
			return
		}
		x.task.Add(broker.Batch{Source: rewindIn, Records: x.log[x.at : x.at+1], From: x.at, Next: x.at + 1, HighWatermark: 60, LastStable: 60})
		if n, err := x.task.Process(now, 5); n != 1 || err != nil {
			x.t.Fatal(n, err)
		}
		if err := x.task.Punctuate(now); err != nil {
			x.t.Fatal(err)
		}
		x.at++
	}
}

// Prepare ends the interval under a new number. Nothing may have changed.
func (x *transactions) Prepare(*rapid.T) {
	if x.unit != nil {
		return
	}
	x.number++
	u, err := x.task.PrepareTransaction(now, task.Stamp{TransactionalID: "app-1", Number: x.number})
	if err != nil {
		x.t.Fatal(err)
	}
	x.unit, x.frozen, x.active = u, x.active, nil
	m, ok := task.ParseMetadata(u.Offsets[rewindIn].Metadata)
	if want := (task.Metadata{PartitionTime: x.fold(x.at).streamTime, TransactionalID: "app-1", Transaction: x.number}); !ok || m != want || u.Offsets[rewindIn].At != x.at {
		x.t.Fatalf("at %d: %+v, want %+v", x.at, u.Offsets, want)
	}
}

// Commit is Kafka's yes.
func (x *transactions) Commit(*rapid.T) {
	if x.unit != nil && !x.sure {
		x.task.Committed(x.unit)
		x.count()
	}
}

func (x *transactions) count() {
	x.sure, x.offsets = true, x.unit.Offsets
	x.committed = append(x.committed, x.frozen...)
	x.frozen = nil
}

// Apply is the engine's write; Applied tells the task, or is never heard of.
func (x *transactions) Apply(*rapid.T) {
	if x.sure && !x.applied {
		x.state.Apply(x.unit)
		x.applied = true
	}
}

func (x *transactions) Applied(*rapid.T) {
	if x.applied {
		x.task.Applied(x.unit)
		x.unit, x.sure, x.applied = nil, false, false
	}
}

// Abort goes back to the last commit, from wherever the task is: the transaction that is under way, if it is not
// committed, and the interval behind it never were. What is committed reaches the state first.
func (x *transactions) Abort(*rapid.T) {
	x.Apply(nil)
	at := x.task.Rewind()
	if diff := cmp.Diff(x.offsets, at); diff != "" {
		x.t.Fatal(diff)
	}
	x.start(at)
}

// Unknown is a commit whose answer is lost. The task goes back; then it turns out that it was committed, or was not.
func (x *transactions) Unknown(*rapid.T) {
	if x.unit == nil || x.sure {
		return
	}
	x.task.Rewind()
	if rapid.Bool().Draw(x.t, "was committed") {
		x.count()
		x.Apply(nil)
	}
	x.start(x.offsets)
}

// Move is the same work in another place: nothing but the state and the offsets is left.
func (x *transactions) Move(*rapid.T) {
	x.Apply(nil)
	if err := x.task.Close(); err != nil {
		x.t.Fatal(err)
	}
	x.create()
}

func (x *transactions) fold(at int64) *fold {
	f := &fold{rows: map[string]string{}, streamTime: -1}
	for i := range x.log[:at] {
		f.take(&x.log[i])
	}
	return f
}

// Check: what the processor would read now is the fold up to here, and what counts is the fold up to the commit.
func (x *transactions) Check(*rapid.T) {
	if err := task.Audit(x.task); err != nil {
		x.t.Fatal(err)
	}
	f := x.fold(x.at)
	if x.host.StreamTime() != f.streamTime {
		x.t.Fatalf("stream time %d, want %d", x.host.StreamTime(), f.streamTime)
	}
	got := map[string]string{}
	for _, k := range []string{"k0", "k1", "k2", "k3", "tick"} {
		c, err := x.host.Store("rows").Cell([]byte(k))
		if err != nil {
			x.t.Fatal(err)
		}
		if c.Present {
			got[k] = strings.Clone(string(c.Value))
		}
	}
	if diff := cmp.Diff(f.rows, got); diff != "" {
		x.t.Fatalf("at %d: %s", x.at, diff)
	}
	x.checkCommitted()
}

func (x *transactions) checkCommitted() {
	f := x.fold(x.offsets[rewindIn].At)
	if diff := cmp.Diff(f.out, x.committed); diff != "" {
		x.t.Fatalf("outputs up to %d: %s", x.offsets[rewindIn].At, diff)
	}
	if x.sure && !x.applied {
		return
	}
	got := map[string]string{}
	for k, row := range x.state.Stores[0] {
		got[k] = string(row.Value)
	}
	if diff := cmp.Diff(f.rows, got); diff != "" {
		x.t.Fatalf("state up to %d: %s", x.offsets[rewindIn].At, diff)
	}
}

// TestRewindIsTheLastCommit lets transactions commit, abort, stay unknown and move, with reads, writes, ranges and
// punctuations between: nothing of an aborted one is left, in cells of either generation, in clean ones that were read
// through it, in stream time or in the punctuations' schedule.
func TestRewindIsTheLastCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTransactions(t)
		t.Repeat(map[string]func(*rapid.T){
			"Process": x.Process, "Process2": x.Process, "Prepare": x.Prepare, "Commit": x.Commit, "Apply": x.Apply, "Applied": x.Applied,
			"Abort": x.Abort, "Unknown": x.Unknown, "Move": x.Move, "": x.Check,
		})
	})
}
