package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// memoryTopic is a topic in memory, of logs whose readers get what is there and then wait.
//
// The mutex protects everything: tests write while followers read.
type memoryTopic struct {
	mu      sync.Mutex
	id      string
	logs    []*memoryLog
	readers map[*topicReader]bool
	// stable, if it is not 0, is how far readers get.
	stable int64
	// taken counts the records that were delivered; lent is credit that was not given back.
	taken, lent int
	// looks gets a value at each look at the topic, if there is room.
	looks chan struct{}
}

func newTopic(partitions int) *memoryTopic {
	mt := &memoryTopic{id: "id1", readers: map[*topicReader]bool{}, looks: make(chan struct{}, 1)}
	for range partitions {
		mt.logs = append(mt.logs, newLog(0, 0))
	}
	return mt
}

func countryPart(p int) record.TopicPartition {
	return record.TopicPartition{Topic: "countries", Partition: int32(p)}
}

// put appends pairs to a partition; a value of "-" deletes.
func (mt *memoryTopic) put(p int, pairs ...string) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	for i := 0; i < len(pairs); i += 2 {
		value := []byte(pairs[i+1])
		if pairs[i+1] == "-" {
			value = nil
		}
		mt.logs[p].put(mt.logs[p].end, []byte(pairs[i]), value)
	}
	mt.pump()
}

// change changes the topic under its lock and has it read.
func (mt *memoryTopic) change(f func()) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	f()
	mt.pump()
}

func (mt *memoryTopic) pump() {
	for r := range mt.readers {
		r.pump()
	}
}

func (mt *memoryTopic) Lookup(ctx context.Context) (string, int32, error) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	select {
	case mt.looks <- struct{}{}:
	default:
	}
	return mt.id, int32(len(mt.logs)), ctx.Err()
}

func (mt *memoryTopic) end(l *memoryLog) int64 {
	if mt.stable > 0 {
		return min(l.end, mt.stable)
	}
	return l.end
}

func (mt *memoryTopic) Ends(_ context.Context, partitions int32) (map[record.TopicPartition]TopicRange, error) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	out := map[record.TopicPartition]TopicRange{}
	for p := range partitions {
		l := mt.logs[p]
		out[countryPart(int(p))] = TopicRange{LogRange{l.start, l.end}, mt.end(l)}
	}
	return out, nil
}

func (mt *memoryTopic) Open(_ int32, deliver func(broker.Event)) (GlobalReader, error) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	r := &topicReader{mt: mt, deliver: deliver, at: map[record.TopicPartition]int64{}}
	mt.readers[r] = true
	return r, nil
}

type topicReader struct {
	mt      *memoryTopic
	deliver func(broker.Event)
	at      map[record.TopicPartition]int64
}

func (r *topicReader) Start(tp record.TopicPartition, at int64) {
	r.mt.mu.Lock()
	defer r.mt.mu.Unlock()
	r.at[tp] = at
	r.pump()
}

func (r *topicReader) Credit(_ record.TopicPartition, bytes int) {
	r.mt.mu.Lock()
	defer r.mt.mu.Unlock()
	r.mt.lent -= bytes
}

func (r *topicReader) Close() {
	r.mt.mu.Lock()
	defer r.mt.mu.Unlock()
	delete(r.mt.readers, r)
}

func (r *topicReader) pump() {
	for tp, at := range r.at {
		if int(tp.Partition) >= len(r.mt.logs) {
			continue // the topic is gone
		}
		l := r.mt.logs[tp.Partition]
		if at < l.start || at > l.end {
			delete(r.at, tp)
			r.deliver(broker.FetchFailed{Source: tp, Position: at, Err: &broker.Error{Op: broker.OpFetch, Code: broker.CodeOffsetOutOfRange, Class: broker.Fatal, Source: tp}})
			continue
		}
		for end := r.mt.end(l); at < end; {
			b := broker.Batch{Source: tp, From: at, Next: min(at+l.batch, end), HighWatermark: l.end, Bytes: 100}
			for o := at; o < b.Next; o++ {
				if rec, ok := l.records[o]; ok {
					b.Records = append(b.Records, rec)
					r.mt.taken++
				}
			}
			r.mt.lent += b.Bytes
			at = b.Next
			r.at[tp] = at
			r.deliver(broker.Fetched{Batches: []broker.Batch{b}})
		}
	}
}

// globalRig is a global store on a topic, under its supervised actor.
type globalRig struct {
	t       *testing.T
	dir     *Directory
	topic   *memoryTopic
	spec    GlobalSpec
	states  chan string
	pid     *actor.PID
	parent  *actor.PID
	mu      sync.Mutex // protects what the watcher is told
	state   *TaskState
	serving *actor.PID
	cause   error
	last    lifecycle.Progress
}

func newGlobalRig(t *testing.T, fs vfs.FS, topic *memoryTopic, change ...func(*DirectoryOptions)) *globalRig {
	g := &globalRig{t: t, dir: openDir(t, fs, change...), topic: topic, states: make(chan string, 100)}
	g.spec = GlobalSpec{Dir: g.dir, ClusterID: "cluster", Topic: topic, Refresh: 5 * time.Millisecond, Watcher: g,
		Store: StoreSpec{Name: "countries", Kind: "key-value", KeyCodec: "string", ValueCodec: "string", Changelog: "countries"},
		Take: func(_ record.TopicPartition, r *record.Raw) (bool, error) {
			if string(r.Value) == "poison" {
				return false, errPoison
			}
			return r.Key != nil, nil
		}}
	return g
}

var errPoison = errors.New("poison")

// start runs the store's actor; it is restarted at once, at most three times.
func (g *globalRig) start() {
	g.t.Helper()
	supervisor := &actors.Supervisor{Intensity: actors.Intensity{Max: 3, Window: time.Hour, First: time.Millisecond, Cap: time.Millisecond},
		Publish: func(o actors.Outcome) {
			g.mu.Lock()
			g.cause = o.Cause
			g.mu.Unlock()
			if o.GaveUp {
				g.states <- "gave up"
			}
		}}
	props := NewGlobalProps(g.spec, nil, actor.WithReceiverMiddleware(actors.Guard))
	g.parent = system().Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			g.pid = ctx.Spawn(props)
		}
	}, actor.WithSupervisor(supervisor)))
}

func (g *globalRig) stop() {
	g.t.Helper()
	if err := actors.StopAndWait(g.t.Context(), system(), g.parent); err != nil {
		g.t.Fatal(err)
	}
	closeDir(g.t, g.dir)
}

// await waits until the watcher is told so.
func (g *globalRig) await(want string) {
	g.t.Helper()
	for {
		select {
		case got := <-g.states:
			if got == want {
				return
			}
		case <-time.After(20 * time.Second):
			g.t.Fatalf("%q did not come", want)
		}
	}
}

func (g *globalRig) Opening(epoch uint64) { g.states <- fmt.Sprint("opening ", epoch) }

func (g *globalRig) Restoring(p lifecycle.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = p
}

func (g *globalRig) Serving(state *TaskState, pid *actor.PID, epoch uint64) {
	g.mu.Lock()
	g.state, g.serving = state, pid
	g.mu.Unlock()
	g.states <- fmt.Sprint("serving ", epoch)
}

func (g *globalRig) DiskFull(full error) { g.states <- fmt.Sprint("full ", full != nil) }

func (g *globalRig) Gone(epoch uint64, err error) {
	g.mu.Lock()
	g.state = nil
	g.mu.Unlock()
	g.states <- fmt.Sprint("gone ", epoch, " ", err == nil)
}

// holds waits until the store is at the end of its topic and compares what it has.
func (g *globalRig) holds(want rows) {
	g.t.Helper()
	g.mu.Lock()
	state, pid := g.state, g.serving
	g.mu.Unlock()
	about := &querypb.About{TimeoutMs: 15_000}
	for p, l := range g.topic.logs {
		g.topic.mu.Lock()
		about.AtLeast = append(about.AtLeast, &querypb.Position{Topic: "countries", Partition: int32(p), Next: g.topic.end(l)})
		g.topic.mu.Unlock()
	}
	reply, err := ask(g.t, pid, &querypb.Range{About: about})
	if err != nil {
		g.t.Fatal(err)
	}
	if len(reply.Position) != len(g.topic.logs) {
		g.t.Error("the reply's position is", reply.Position)
	}
	got := rows{}
	for _, e := range reply.GetPage().GetEntries() {
		got[string(e.Key)] = string(e.Value)
	}
	if d := cmp.Diff(want, got); d != "" {
		g.t.Error(d)
	}
	if d := cmp.Diff(want, content(g.t, state, 0)); d != "" {
		g.t.Error(d)
	}
}
