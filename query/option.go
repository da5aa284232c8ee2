package query

import (
	"sync"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// Option changes how questions are asked.
type Option func(*options)

type options struct {
	requireRunning bool
	reverse        bool
	approximate    bool
	entries, bytes int32
	partition      *int32
	resume         *resume
	atLeast        record.Position
	maxLag         *int64
	tracker        *Tracker
}

// RequireRunning asks for the draft's rule: StreamThreadRebalancing while any thread of the node that is asked is not
// RUNNING, even if the partition itself could answer.
func RequireRunning() Option { return func(o *options) { o.requireRunning = true } }

// Reverse scans from the last key of the last partition to the first key of the first: the forward scan's entries in the
// opposite order.
func Reverse() Option { return func(o *options) { o.reverse = true } }

// PageSize bounds the pages of a scan. 0 leaves a bound to the store, whose own bounds cap both.
func PageSize(entries, bytes int32) Option {
	return func(o *options) { o.entries, o.bytes = entries, bytes }
}

// Partition asks one partition only, whatever the key: for stores that are not partitioned by Kafka's default hash of the
// key. It fails with PartitionNotInStore if there is no such partition and with InvalidStateStorePartition if it is on
// another node.
func Partition(p int32) Option { return func(o *options) { o.partition = &p } }

// AtLeast makes each question wait until the store partition has taken up its sources up to the position: read your
// writes. A record at offset n is in the store at the next offset n+1. The question ends with DeadlineExceeded, whose
// Reached says where the store is, if the context ends before; it waits MaxWait at most.
func AtLeast(p record.Position) Option { return func(o *options) { o.atLeast = p } }

// WithinLag lets a standby answer that is at most so many changelog offsets behind. Without it only active stores answer.
func WithinLag(offsets int64) Option { return func(o *options) { o.maxLag = &offsets } }

// Approximate lets Count estimate.
func Approximate() Option { return func(o *options) { o.approximate = true } }

// Track merges the position of each reply into t.
func Track(t *Tracker) Option { return func(o *options) { o.tracker = t } }

// Resume goes on with a scan that was cut off: it begins after lastKey in that partition, or with the partition's first
// entry if lastKey is nil, and leaves out the partitions before it. Everything else must be as it was in the scan that was
// cut. A *Failure has an Option of its own for this, Failure.Resume.
func Resume(partition int32, lastKey []byte) Option {
	return func(o *options) { o.resume = &resume{partition, lastKey} }
}

// Resume is the option with which the scan that the failure has cut off goes on without a gap or a repetition.
func (f *Failure) Resume() Option { return Resume(f.Partition, f.LastKey) }

type resume struct {
	partition int32
	last      []byte
}

func gather(opts []Option) (o options) {
	for _, f := range opts {
		f(&o)
	}
	return o
}

// Tracker collects the positions that replies reflect. It may be used from any goroutine, so a lock protects the position;
// an owner goroutine would have to be ended by somebody.
type Tracker struct {
	mu       sync.Mutex
	position record.Position
}

// Position is a copy of what was collected. As the argument of AtLeast it makes sure that no later read is of an earlier
// state.
func (t *Tracker) Position() record.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := make(record.Position, len(t.position))
	record.MergePosition(p, t.position)
	return p
}

func (t *Tracker) merge(r *querypb.Reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.position == nil {
		t.position = record.Position{}
	}
	record.MergePosition(t.position, FromPositions(r.GetPosition()))
}
