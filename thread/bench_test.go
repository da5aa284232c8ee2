package thread_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// quiet answers a loop at once and keeps nothing, so that a benchmark measures the loop and its tasks.
type quiet struct {
	slot  *thread.Slot
	state *tasktest.State
}

func (q quiet) Released(int32, []record.TopicPartition) {}
func (q quiet) Rejoin(string)                           {}
func (q quiet) Commit(token uint64, _ broker.Offsets) {
	q.slot.Inbox.Put(broker.OffsetsCommitted{Token: token})
}

func (q quiet) CommittedOffsets(token uint64, tps []record.TopicPartition, _ bool) {
	offsets := broker.Offsets{}
	for _, tp := range tps {
		offsets[tp] = broker.Offset{}
	}
	q.slot.Inbox.Put(broker.OffsetsFetched{Token: token, Offsets: offsets})
}

type quietFetcher struct{}

func (quietFetcher) Start(record.TopicPartition, int64) {}
func (quietFetcher) Stop(...record.TopicPartition)      {}
func (quietFetcher) Credit(record.TopicPartition, int)  {}

type quietProducer struct{ quiet }

func (q quietProducer) Append(record.TopicPartition, *record.Raw) error { return nil }
func (q quietProducer) Partitions(string) (int32, error)                { return partitions, nil }
func (q quietProducer) Tick(time.Time) time.Time                        { return time.Time{} }
func (q quietProducer) Buffered() int64                                 { return 0 }
func (q quietProducer) Flush(token uint64)                              { q.slot.Inbox.Put(broker.Flushed{Token: token}) }
func (q quietProducer) Amend(uint64, []broker.Outgoing)                 {}
func (q quietProducer) Fence(uint64, string)                            {}
func (q quietProducer) Abort(token uint64) {
	q.slot.Inbox.Put(broker.TransactionAborted{Token: token})
}

func (q quietProducer) Commit(token uint64, _ broker.Offsets, _ broker.Membership) {
	q.slot.Inbox.Put(broker.TransactionEnded{Token: token})
}

type quietStates struct{ quiet }

func (q quietStates) Open(id record.TaskID, epoch uint64) {
	q.slot.Inbox.Put(thread.StateReady{Task: id, Epoch: epoch, State: q.state})
}

func (q quietStates) Apply(id record.TaskID, epoch uint64, u *task.Unit, _ map[record.TopicPartition]int64) {
	q.slot.Inbox.Put(thread.UnitApplied{Task: id, Epoch: epoch, Unit: u})
}
func (q quietStates) Replay(record.TaskID, uint64) {}
func (q quietStates) Close(record.TaskID, uint64)  {}

type quietWatcher struct{}

func (quietWatcher) Became(lifecycle.ThreadStatus)              {}
func (quietWatcher) Running(record.TaskID, broker.Offsets)      {}
func (quietWatcher) Gone(record.TaskID)                         {}
func (quietWatcher) Assignment(string, []byte) (bool, []string) { return false, nil }
func (quietWatcher) Resolve(uint64, []record.TopicPartition)    {}

// running is a loop with so many tasks that run.
func running(t testing.TB, exactlyOnce bool, tasks int32, work *thread.Work) (*thread.Loop, *thread.Slot) {
	return runningWith(t, exactlyOnce, tasks, work, func(h topology.Host) (task.Chain, error) { return &counter{host: h, refuse: topology.Fail}, nil })
}

func runningWith(t testing.TB, exactlyOnce bool, tasks int32, work *thread.Work, chain func(topology.Host) (task.Chain, error)) (*thread.Loop, *thread.Slot) {
	slot := thread.NewSlot("thread-1")
	q := quiet{slot, tasktest.NewState(1)}
	slot.Group, slot.Fetcher, slot.Producer = q, quietFetcher{}, quietProducer{q}
	if exactlyOnce {
		slot.TransactionalID = "app-me"
	}
	cfg := configWith(slot, []string{"in"}, chain)
	cfg.Budget, cfg.Positions, cfg.States, cfg.Watcher = 1_000, quietWatcher{}, quietStates{q}, quietWatcher{}
	if cfg.Work = work; work != nil {
		of := map[record.TaskID]*thread.TaskWork{}
		cfg.TaskWork = func(id record.TaskID) *thread.TaskWork {
			if of[id] == nil {
				of[id] = &thread.TaskWork{}
			}
			return of[id]
		}
	}
	l := thread.NewLoop(cfg)
	l.Start(start)
	var tps []record.TopicPartition
	for p := range tasks {
		tps = append(tps, in(p))
	}
	slot.Inbox.Put(broker.Assigned{Generation: 1, MemberID: "me", Partitions: tps})
	for range 10 {
		for p := range tasks {
			slot.Inbox.Put(thread.StoresServing{Task: record.TaskID{Partition: p}})
		}
		if _, err := l.Step(start); err != nil {
			t.Fatal(err)
		}
	}
	if l.State() != lifecycle.ThreadRunning {
		t.Fatal(l.State())
	}
	return l, slot
}

// stepping is a keyed count through Step: each step gets a batch of 1,000 records for each of 3 tasks, and takes 10 ms of
// the loop's clock, so that every tenth begins a commit.
type stepping struct {
	testing.TB
	loop    *thread.Loop
	slot    *thread.Slot
	batches [][]record.Raw
	now     time.Time
	at      int64
}

const stepTasks, stepRecords = 3, 1_000

func newStepping(t testing.TB, exactlyOnce bool, work *thread.Work) *stepping {
	s := &stepping{TB: t, batches: make([][]record.Raw, stepTasks), now: start}
	s.loop, s.slot = running(t, exactlyOnce, stepTasks, work)
	for p := range s.batches {
		for i := range stepRecords {
			s.batches[p] = append(s.batches[p], record.Raw{Key: fmt.Appendf(nil, "user-%06d", (i*7919)%500)})
		}
	}
	return s
}

func (s *stepping) step() {
	fetched := broker.Fetched{Batches: make([]broker.Batch, stepTasks)}
	for p := range s.batches {
		for i := range s.batches[p] {
			s.batches[p][i].Offset = s.at + int64(i)
		}
		fetched.Batches[p] = broker.Batch{Source: in(int32(p)), Records: s.batches[p], From: s.at, Next: s.at + stepRecords, HighWatermark: s.at + stepRecords, Bytes: stepRecords}
	}
	s.at += stepRecords
	s.now = s.now.Add(10 * time.Millisecond)
	s.slot.Inbox.Put(fetched)
	if _, err := s.loop.Step(s.now); err != nil {
		s.Fatal(err)
	}
}

// What is allocated is the commits' and a few bytes for each batch.
func BenchmarkStep(b *testing.B) {
	for _, exactlyOnce := range []bool{false, true} {
		b.Run(fmt.Sprintf("exactlyOnce=%t", exactlyOnce), func(b *testing.B) {
			s, steps := newStepping(b, exactlyOnce, nil), 0
			b.ReportAllocs()
			for b.Loop() {
				s.step()
				steps++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps*stepTasks*stepRecords), "ns/record")
		})
	}
}

// What metrics cost: two loops take turns at a few steps each, one that counts what it does and one that does not, so that
// whatever else the machine does meets both. The ratio is the median over the turns. The same with two loops that do not
// count tells what a ratio is worth.
func BenchmarkStepMetered(b *testing.B) {
	for _, exactlyOnce := range []bool{false, true} {
		for name, work := range map[string]*thread.Work{"metered": thread.NewWork(time.Now, histograms(b)), "control": nil} {
			b.Run(fmt.Sprintf("exactlyOnce=%t/%s", exactlyOnce, name), func(b *testing.B) {
				plain, other := newStepping(b, exactlyOnce, nil), newStepping(b, exactlyOnce, work)
				var ratios []float64
				for b.Loop() {
					first := took(plain)
					others := took(other) + took(other)
					ratios = append(ratios, others/(first+took(plain)))
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "x-plain")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// took is how long a turn takes.
func took(s *stepping) float64 {
	began := time.Now()
	for range 10 {
		s.step()
	}
	return float64(time.Since(began))
}

// histograms are latencies as a node measures them, by OpenTelemetry's SDK.
func histograms(b *testing.B) thread.Latencies {
	h, err := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())).Meter("bench").Float64Histogram("latency")
	if err != nil {
		b.Fatal(err)
	}
	of := []api.RecordOption{api.WithAttributeSet(attribute.NewSet(attribute.String("thread", "thread-1")))}
	tell := func(d time.Duration) { h.Record(b.Context(), d.Seconds(), of...) }
	return thread.Latencies{Process: tell, Punctuate: tell, Commit: tell}
}
