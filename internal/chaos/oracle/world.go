package oracle

import "fmt"

// Guarantee is what the nodes promised.
type Guarantee string

// The guarantees, as Kafka Streams spells them.
const (
	ExactlyOnce Guarantee = "exactly_once"
	AtLeastOnce Guarantee = "at_least_once"
)

// World is all that is known at the end of a run.
type World struct {
	Guarantee Guarantee
	Jobs      []Job
	// Offsets has each source partition, repartition topics included.
	Offsets []Offset
	// Producers has each process that ran long enough to say how many producers it made.
	Producers []Producers
}

// Job is one aggregation: what went in, what came out, and what is kept of it.
type Job struct {
	Name string
	// Rich values carry how many inputs they hold and the id of the last one; plain ones are sums alone.
	Rich bool
	// Partitions is the number of partitions of the store.
	Partitions int32
	// Inputs is what the feeder wrote, by its own books; Log is what the input topic holds. Both are in order within
	// each partition.
	Inputs, Log []Input
	// Outputs is what a read_committed reader finds at the end; Seen is what another one saw while the faults went on.
	// Both are in order within each partition.
	Outputs, Seen []Output
	// Stores has a shard for each partition that a node answered for; Changelog one for each partition of the topic.
	Stores, Changelog []Shard
}

// Input is one record that was fed. Its ID is unique in the job.
type Input struct {
	ID        string
	Partition int32
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Adds      []Add
}

// Add is what an input does to one key.
type Add struct {
	Key    string
	Amount int64
}

// Value is an aggregate.
type Value struct {
	Sum int64
	// Count and Last are zero in jobs that are not Rich.
	Count int64
	Last  string
}

// String is the value as violations show it.
func (v Value) String() string {
	if v.Count == 0 && v.Last == "" {
		return fmt.Sprint(v.Sum)
	}
	return fmt.Sprintf("%d (of %d, the last %s)", v.Sum, v.Count, v.Last)
}

// Entry is a value with its key and its timestamp.
type Entry struct {
	Key       string
	Value     Value
	Timestamp int64
}

// Output is one committed update. ID names the input that caused it.
type Output struct {
	Entry
	Partition int32
	Offset    int64
	ID        string
}

// Shard is one partition of a store. Node is who answered for it; empty for a changelog.
type Shard struct {
	Node      string
	Partition int32
	Entries   []Entry
}

// Offset is how far the group is in a source partition.
type Offset struct {
	Topic          string
	Partition      int32
	Committed, End int64
}

// Producers is how many producers a process made for its slots.
type Producers struct {
	Node    string
	Created uint64
	Slots   uint64
}

// Violation is one thing that is not as it should be.
type Violation struct {
	Rule            Rule
	Job, Key        string
	Expected, Found string
}

// String is one line.
func (v Violation) String() string {
	return fmt.Sprintf("violation %s: %s key=%q expected %s, found %s", v.Rule, v.Job, v.Key, v.Expected, v.Found)
}

// Rule names what a violation breaks.
type Rule string

// The rules.
const (
	// InputLost, InputDoubled, InputChanged: the log does not hold what the feeder wrote. The brokers or the feeder are to
	// blame, and the other rules say nothing.
	InputLost    Rule = "input-lost"
	InputDoubled Rule = "input-doubled"
	InputChanged Rule = "input-changed"

	Lost     Rule = "lost"     // an input has no output
	Doubled  Rule = "doubled"  // an input has more outputs than it adds
	Invented Rule = "invented" // an output has no input
	Order    Rule = "order"    // a key's inputs of one partition were taken up in another order
	Sum      Rule = "sum"      // an output is not the sum of what came before it
	Time     Rule = "time"     // an output's timestamp is not the highest of what went into it
	Scatter  Rule = "scatter"  // a key's outputs are in more than one partition

	SeenUndone Rule = "seen-undone" // a live reader saw an output that is not there at the end
	SeenMissed Rule = "seen-missed" // an output is there at the end and no live reader saw it

	Unserved    Rule = "unserved"     // no node answers for a partition of a store
	ServedTwice Rule = "served-twice" // two nodes do
	StoreFold   Rule = "store"        // a store holds less than the fold of the inputs, or a key that none has
	StoreOver   Rule = "store-over"   // a store holds that much and is not the fold: more, of another time, another last input
	StoreLog    Rule = "changelog"    // a store is not the fold of its changelog

	Behind   Rule = "offset"   // a committed offset is not the end
	Producer Rule = "producer" // a slot made a second producer
)

// rules are all of them; a test shows that each can fail.
var rules = []Rule{InputLost, InputDoubled, InputChanged, Lost, Doubled, Invented, Order, Sum, Time, Scatter, SeenUndone, SeenMissed,
	Unserved, ServedTwice, StoreFold, StoreOver, StoreLog, Behind, Producer}
