package thread_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.UnixMilli(1_000_000)

const interval = 100 * time.Millisecond

func in(p int32) record.TopicPartition  { return record.TopicPartition{Topic: "in", Partition: p} }
func two(p int32) record.TopicPartition { return record.TopicPartition{Topic: "two", Partition: p} }
func changelog(p int32) record.TopicPartition {
	return record.TopicPartition{Topic: "counts-changelog", Partition: p}
}

func taskOf(tp record.TopicPartition) (record.TaskID, bool) {
	return record.TaskID{Partition: tp.Partition}, tp.Topic == "in" || tp.Topic == "two"
}

// counter counts words and says so at once: one output for each record, which names the record that it comes from.
type counter struct {
	host   topology.Host
	counts topology.StateStore
	out    topology.Output
	fail   func(*record.Raw) error
	refuse topology.Response
	value  [8]byte
	text   []byte
	name   [1]record.Header
	output record.Raw
}

func (c *counter) Init() error {
	c.counts, c.out = c.host.Store("counts"), c.host.Output("out")
	return nil
}
func (c *counter) Flush() error                                   { return nil }
func (c *counter) Punctuate(int64, int64) error                   { return nil }
func (c *counter) NextWallClock() (int64, bool)                   { return 0, false }
func (c *counter) Close() error                                   { return nil }
func (c *counter) Source(string) (func(*record.Raw) error, error) { return c.process, nil }

// Handlers implements task.Handled: what becomes of an output that a broker refuses.
func (c *counter) Handlers() topology.Handlers {
	return topology.Handlers{
		DeadLetterTopic: "dead",
		Production:      func(topology.ErrorContext, error) topology.Response { return c.refuse },
	}
}
func (c *counter) Sink(string) string                                    { return "sink" }
func (c *counter) Unreadable(string, *record.Raw) (_, _ string, ok bool) { return "", "", false }

func (c *counter) process(r *record.Raw) error {
	cell, err := c.counts.Cell(r.Key)
	if err != nil {
		return err
	}
	n := uint64(1)
	if cell.Present {
		n += binary.BigEndian.Uint64(cell.Value)
	}
	binary.BigEndian.PutUint64(c.value[:], n)
	if err := c.counts.Set(cell, c.value[:], r.Timestamp); err != nil {
		return err
	}
	source, offset, _ := c.host.Current()
	c.text = strconv.AppendInt(append(append(c.text[:0], source.Topic...), '@'), offset, 10)
	c.name[0] = record.Header{Key: "from", Value: c.text}
	c.output = record.Raw{Key: r.Key, Value: c.value[:], Timestamp: r.Timestamp, Headers: c.name[:]}
	if err := c.out.Send(&c.output, source.Partition); err != nil || c.fail == nil {
		return err
	}
	return c.fail(r)
}

// config is what every test's loop has in common. fail, if there is one, may fail a record after it has had its effect.
func config(slot *thread.Slot, topics []string, refuse topology.Response, fail func(*record.Raw) error) thread.Config {
	return configWith(slot, topics, func(h topology.Host) (task.Chain, error) { return &counter{host: h, fail: fail, refuse: refuse}, nil })
}

// configWith has tasks of another chain.
func configWith(slot *thread.Slot, topics []string, chain func(topology.Host) (task.Chain, error)) thread.Config {
	sources := func(id record.TaskID) (tps []record.TopicPartition) {
		for _, t := range topics {
			tps = append(tps, record.TopicPartition{Topic: t, Partition: id.Partition})
		}
		return tps
	}
	return thread.Config{
		Slot: slot, TaskOf: taskOf, Sources: sources, CommitInterval: interval, UncommittedBytes: 1 << 20, BufferedBytes: 1 << 20,
		Budget: 3, Log: slog.New(slog.DiscardHandler),
		NewTask: func(id record.TaskID, state task.State, p task.Producer) (*task.Task, error) {
			return task.New(task.Config{
				ID: id, Sources: sources(id), State: state, Producer: p, CacheBytes: 1 << 20, MaxIdle: -1,
				Stores: []task.StoreConfig{{Name: "counts", Changelog: changelog(id.Partition)}},
				Chain:  chain,
			})
		},
	}
}

func count(value []byte) string {
	if len(value) != 8 {
		return fmt.Sprintf("%q", value)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(value), 10)
}
