package millrace_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// answers is a process that counts what it is told, by kind; 0 is a value.
type answers struct {
	kinds [64]atomic.Int64
	all   atomic.Int64
}

func (a *answers) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	kind := query.Kind(0)
	if f, ok := query.FromReply(m.(*querypb.Reply)).(*query.Failure); ok {
		kind = f.Kind
	}
	a.kinds[kind].Add(1)
	a.all.Add(1)
}
func (a *answers) SendSystemMessage(*actor.PID, any) {}
func (a *answers) Stop(*actor.PID)                   {}

// requests counts those of a kind that the cluster gets.
func requests(c *embedded.Cluster, key kmsg.Key) *atomic.Int64 {
	var n atomic.Int64
	c.Kfake().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// floodHeapMax is how much more memory a flood may hold: what waits at one gate is bounded by query.MaxOutstanding.
const floodHeapMax = 32 << 20

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million questions go to one store actor that does not answer: all but what may wait are refused at once, memory stays
// bounded, and meanwhile the member's heartbeats go out, so that it is not thrown out of its group, and records are processed
// and committed. When the actor answers again, each question has got exactly one answer.
func TestMillionQuestionsToOneStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	c := cluster(t)
	heartbeats, joins := requests(c, kmsg.Heartbeat), requests(c, kmsg.JoinGroup)
	var shut atomic.Bool
	gate := make(chan struct{})
	hook := func(s fault.Site) error {
		if s.Point == fault.QueryReceive && shut.Load() {
			<-gate
		}
		return nil
	}
	n := start(t, wordCount(t), onto(t, c, millrace.WithFaults(hook), millrace.WithSessionTimeout(6*time.Second))...)
	feed(t, c, "the race the wheel")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t.Context(), t, n.OwnsAll, func() string { return "it owns too little" })
	before, joined, beaten := heap(), joins.Load(), heartbeats.Load()
	shut.Store(true)
	var heard answers
	var sent atomic.Int64
	done, flooded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flooded)
		system := n.ActorSystem()
		self, _ := system.ProcessRegistry.Add(&heard, "flood")
		key := []byte("the")
		q, pid := &querypb.Get{Key: key}, n.StorePID("counts", record.Partition(key, 4))
		for enough := false; sent.Load() < 1_000_000 || !enough; sent.Add(1) {
			system.Root.RequestWithCustomSender(pid, q, self)
			select {
			case <-done:
				enough = true
			default:
			}
		}
	}()
	feed(t, c, "the race", "the wheel", "the mill", "the end")
	if err := n.Drain(t.Context()); err != nil {
		t.Error("nothing is committed meanwhile:", err)
	}
	await(t.Context(), t, func() bool { return heartbeats.Load() >= beaten+2 }, func() string { return "the member's heart does not beat" })
	close(done)
	<-flooded
	grown := heap() - before
	if grown > floodHeapMax {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	refused := heard.kinds[query.Overloaded].Load()
	if admitted := sent.Load() - refused; admitted < 1 || admitted > query.MaxOutstanding || heard.kinds[0].Load() > 0 {
		t.Errorf("%d were sent, %d refused, %d answered by an actor that is stopped", sent.Load(), refused, heard.kinds[0].Load())
	}
	shut.Store(false)
	close(gate)
	await(t.Context(), t, func() bool { return heard.all.Load() == sent.Load() }, func() string { return "some have no answer" })
	if th := n.Threads()[0]; joins.Load() != joined || th.State != lifecycle.ThreadRunning || th.Epoch != 1 {
		t.Errorf("%d joins, and %d before; %+v", joins.Load(), joined, th)
	}
	if v, _, err := query.Get(t.Context(), n.Node, counts, "the"); err != nil || v != 6 {
		t.Error(v, err)
	}
	t.Logf("%d questions, %d refused at once, %d heartbeats meanwhile, the heap has grown by %d bytes", sent.Load(), refused, heartbeats.Load()-beaten, grown)
}
