package task_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// counter is a chain by hand: it counts values by key. Usually a chain is a *topology.Instance.
type counter struct {
	counts topology.StateStore
	buf    [8]byte
}

func newCounter(h topology.Host) (task.Chain, error) { return &counter{counts: h.Store("counts")}, nil }

func (c *counter) Init() error                                    { return nil }
func (c *counter) Flush() error                                   { return nil }
func (c *counter) Punctuate(int64, int64) error                   { return nil }
func (c *counter) NextWallClock() (int64, bool)                   { return 0, false }
func (c *counter) Close() error                                   { return nil }
func (c *counter) Source(string) (func(*record.Raw) error, error) { return c.process, nil }

func (c *counter) process(r *record.Raw) error {
	cell, err := c.counts.Cell(r.Key)
	if err != nil {
		return err
	}
	var n uint64
	if cell.Present {
		n = binary.BigEndian.Uint64(cell.Value)
	}
	binary.BigEndian.PutUint64(c.buf[:], n+1)
	return c.counts.Set(cell, c.buf[:], r.Timestamp)
}

// One commit of a task, from a fetched batch to the state.
func Example() {
	words := record.TopicPartition{Topic: "words", Partition: 0}
	changelog := record.TopicPartition{Topic: "app-counts-changelog", Partition: 0}
	state, producer := tasktest.NewState(1), tasktest.NewProducer(nil)
	t, err := task.New(task.Config{
		ID: record.TaskID{SubTopology: 0, Partition: 0}, Sources: []record.TopicPartition{words},
		Stores: []task.StoreConfig{{Name: "counts", Changelog: changelog}},
		Chain:  newCounter, State: state, Producer: producer,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.UnixMilli(1_000)
	t.Restoring()
	if err := t.Start(now, broker.Offsets{words: {At: 0}}); err != nil {
		fmt.Println(err)
		return
	}
	t.Add(broker.Batch{Source: words, From: 0, Next: 3, HighWatermark: 3, Records: []record.Raw{
		{Key: []byte("the"), Timestamp: 10, Offset: 0}, {Key: []byte("cat"), Timestamp: 20, Offset: 1}, {Key: []byte("the"), Timestamp: 30, Offset: 2},
	}})
	n, err := t.Process(now, 100)
	fmt.Println(n, err)

	unit, err := t.Prepare(now) // the changelog records are out; wait until they are acknowledged
	fmt.Println(len(unit.Writes), err, unit.Offsets[words].At)
	t.Committed(unit) // Kafka has the offsets
	state.Apply(unit) // only now does the state change
	t.Applied(unit)

	for _, r := range producer.Log[changelog] {
		fmt.Printf("%s %d @%d\n", r.Key, binary.BigEndian.Uint64(r.Value), r.Timestamp)
	}
	// Output:
	// 3 <nil>
	// 2 <nil> 3
	// cat 1 @20
	// the 2 @30
}

func ExampleMetadata() {
	text := task.Metadata{PartitionTime: 1_700_000_000_000}.String()
	m, ours := task.ParseMetadata(text)
	fmt.Println(text, m.PartitionTime, ours)
	_, ours = task.ParseMetadata("somebody else's")
	fmt.Println(ours)
	// Output:
	// 1|1700000000000|0| 1700000000000 true
	// false
}

// A record that the processor cannot stand goes to the dead-letter topic; the task goes on behind it, and both are in one
// commit.
func Example_deadLetter() {
	orders := topology.NewTopic("orders", codec.String, codec.String)
	b := topology.NewBuilder()
	checked := topology.Map(topology.From(b, orders), func(r record.Record[string, string]) (record.Record[string, string], error) {
		if r.NoValue {
			return r, errors.New("an order needs a value")
		}
		return r, nil
	})
	topology.To(checked, topology.NewTopic("checked", codec.String, codec.String))
	b.Always(topology.Processing, topology.DeadLetter)
	b.DeadLetterTopic("orders-dead")
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	in := record.TopicPartition{Topic: "orders"}
	producer := tasktest.NewProducer(map[string]int32{"checked": 1, "orders-dead": 1})
	t, err := task.New(task.Config{
		Sources: []record.TopicPartition{in}, Producer: producer,
		Chain: func(h topology.Host) (task.Chain, error) { return top.Bind("shop").SubTopologies[0].Instantiate(h) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	t.Restoring()
	if err := t.Start(now, broker.Offsets{in: {}}); err != nil {
		fmt.Println(err)
		return
	}
	t.Add(broker.Batch{Source: in, Next: 3, HighWatermark: 3, Records: []record.Raw{
		{Key: []byte("1"), Value: []byte("tea")}, {Key: []byte("2"), Offset: 1}, {Key: []byte("3"), Value: []byte("jam"), Offset: 2},
	}})
	n, err := t.Process(time.UnixMilli(1_000), 100)
	fmt.Println(n, err)
	dead := producer.Log[record.TopicPartition{Topic: "orders-dead"}][0]
	why, _ := dead.Headers.Last(topology.HeaderMessage)
	offset, _ := dead.Headers.Last(topology.HeaderOffset)
	fmt.Printf("key %s, null value %v, offset %s: %s\n", dead.Key, dead.Value == nil, offset, why)
	counts := t.Responses()
	fmt.Println(counts.Dropped(topology.Processing))
	// Output:
	// 3 <nil>
	// key 2, null value true, offset 1: processor "map-0000000001": an order needs a value
	// 1
}
