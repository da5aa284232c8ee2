package task_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// script is a chain whose every step is a function of the test; nil does nothing.
type script struct {
	host              topology.Host
	process           func(topic string, r *record.Raw) error
	init, flush, shut func() error
	punctuate         func(streamTime, wallClock int64) error
	wall              int64
	made, closed      int
}

func (s *script) chain(h topology.Host) (task.Chain, error) {
	s.host = h
	s.made++
	return s, nil
}

func run(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (s *script) Init() error  { return run(s.init) }
func (s *script) Flush() error { return run(s.flush) }
func (s *script) Close() error {
	s.closed++
	return run(s.shut)
}

func (s *script) Punctuate(streamTime, wallClock int64) error {
	if s.punctuate == nil {
		return nil
	}
	return s.punctuate(streamTime, wallClock)
}

func (s *script) NextWallClock() (int64, bool) { return s.wall, s.wall > 0 }

func (s *script) Source(topic string) (func(*record.Raw) error, error) {
	return func(r *record.Raw) error {
		if s.process == nil {
			return nil
		}
		return s.process(topic, r)
	}, nil
}

func tp(topic string, partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: topic, Partition: partition}
}

var now = time.UnixMilli(1_000_000)

// config is a task with the stores s0 and s1, both with changelogs, that reads in-0.
func config(s *script, state task.State, p task.Producer) task.Config {
	return task.Config{
		ID: record.TaskID{SubTopology: 1, Partition: 2}, Sources: []record.TopicPartition{tp("in", 0)},
		Stores: []task.StoreConfig{{Name: "s0", Changelog: tp("s0-changelog", 0)}, {Name: "s1", Changelog: tp("s1-changelog", 0)}},
		Chain:  s.chain, State: state, Producer: p, CacheBytes: 1 << 20,
	}
}

func newTask(t testing.TB, cfg task.Config) *task.Task {
	t.Helper()
	k, err := task.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// start makes a task run from offset 0 of all its sources.
func start(t testing.TB, cfg task.Config) *task.Task {
	t.Helper()
	k := newTask(t, cfg)
	k.Restoring()
	at := broker.Offsets{}
	for _, tp := range cfg.Sources {
		at[tp] = broker.Offset{}
	}
	if err := k.Start(now, at); err != nil {
		t.Fatal(err)
	}
	return k
}

func newPorts() (*tasktest.State, *tasktest.Producer) {
	return tasktest.NewState(2), tasktest.NewProducer(map[string]int32{"out": 4})
}

// batch makes records with the given timestamps, one offset each, from a position.
func batch(source record.TopicPartition, from int64, timestamps ...int64) broker.Batch {
	b := broker.Batch{Source: source, From: from, Next: from + int64(len(timestamps)), Bytes: 10 + len(timestamps)}
	for i, ts := range timestamps {
		b.Records = append(b.Records, record.Raw{Key: []byte("k"), Value: []byte("v"), Timestamp: ts, Offset: from + int64(i)})
	}
	b.HighWatermark, b.LastStable = b.Next, b.Next
	return b
}

// within runs f as a processor would be run.
func within(t testing.TB, k *task.Task, s *script, f func()) {
	t.Helper()
	s.punctuate = func(int64, int64) error {
		f()
		return nil
	}
	if err := k.Punctuate(now); err != nil {
		t.Fatal(err)
	}
	s.punctuate = nil
}

// commit carries a whole commit out.
func commit(t testing.TB, k *task.Task, state *tasktest.State) *task.Unit {
	t.Helper()
	u, err := k.Prepare(now)
	if err != nil {
		t.Fatal(err)
	}
	k.Committed(u)
	state.Apply(u)
	k.Applied(u)
	return u
}
