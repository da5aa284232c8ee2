package thread_test

import (
	"fmt"
	"testing"
	"time"

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
func running(b *testing.B, exactlyOnce bool, tasks int32) (*thread.Loop, *thread.Slot) {
	slot := thread.NewSlot("thread-1")
	q := quiet{slot, tasktest.NewState(1)}
	slot.Group, slot.Fetcher, slot.Producer = q, quietFetcher{}, quietProducer{q}
	if exactlyOnce {
		slot.TransactionalID = "app-me"
	}
	cfg := config(slot, []string{"in"}, topology.Fail, nil)
	cfg.Budget, cfg.Positions, cfg.States, cfg.Watcher = 1_000, quietWatcher{}, quietStates{q}, quietWatcher{}
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
			b.Fatal(err)
		}
	}
	if l.State() != lifecycle.ThreadRunning {
		b.Fatal(l.State())
	}
	return l, slot
}

// A keyed count through Step: each step gets a batch of 1,000 records for each of 3 tasks, and takes 10 ms of the loop's
// clock, so that every tenth begins a commit. What is allocated is the commits' and a few bytes for each batch.
func BenchmarkStep(b *testing.B) {
	const tasks, size = 3, 1_000
	for _, exactlyOnce := range []bool{false, true} {
		b.Run(fmt.Sprintf("exactlyOnce=%t", exactlyOnce), func(b *testing.B) {
			l, slot := running(b, exactlyOnce, tasks)
			batches, now, at := make([][]record.Raw, tasks), start, int64(0)
			for p := range batches {
				for i := range size {
					batches[p] = append(batches[p], record.Raw{Key: fmt.Appendf(nil, "user-%06d", (i*7919)%500)})
				}
			}
			steps := 0
			b.ReportAllocs()
			for b.Loop() {
				fetched := broker.Fetched{Batches: make([]broker.Batch, tasks)}
				for p := range batches {
					for i := range batches[p] {
						batches[p][i].Offset = at + int64(i)
					}
					fetched.Batches[p] = broker.Batch{Source: in(int32(p)), Records: batches[p], From: at, Next: at + size, HighWatermark: at + size, Bytes: size}
				}
				at += size
				now = now.Add(10 * time.Millisecond)
				slot.Inbox.Put(fetched)
				if _, err := l.Step(now); err != nil {
					b.Fatal(err)
				}
				steps++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps*tasks*size), "ns/record")
		})
	}
}
