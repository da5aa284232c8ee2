package task

import (
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Chain is a sub-topology that was instantiated for one task; *topology.Instance is one.
type Chain interface {
	Init() error
	Source(topic string) (func(*record.Raw) error, error)
	Flush() error
	Punctuate(streamTime, wallClock int64) error
	NextWallClock() (int64, bool)
	Close() error
}

// Entry is one row of a State.
type Entry struct {
	Key, Value []byte
	Timestamp  int64
}

// State is the task's committed state. Stores are numbered in the order of Config.Stores.
type State interface {
	// Get returns a copy of the value. Three things might happen: a value with ok, an absent key without it, an error
	// of the engine.
	Get(store int, key []byte) (value []byte, timestamp int64, ok bool, err error)
	// Scan gives the rows between from and to, both included, in byte order or backwards; a nil bound is open. A row is
	// valid until the next one. An error is the last thing that is yielded.
	Scan(store int, from, to []byte, reverse bool) iter.Seq2[Entry, error]
}

// Producer is where a task's records go.
type Producer interface {
	// Append copies what r refers to. Its error is a *broker.Error: Record if no broker would take the record.
	Append(tp record.TopicPartition, r *record.Raw) error
	// Partitions is a topic's partition count.
	Partitions(topic string) (int32, error)
}

// StoreConfig is one store of a task. Changelog.Topic is empty if it has none.
type StoreConfig struct {
	Name      string
	Changelog record.TopicPartition
}

// Config is what a Task is made of.
type Config struct {
	ID       record.TaskID
	Sources  []record.TopicPartition
	Stores   []StoreConfig
	Chain    func(topology.Host) (Chain, error)
	State    State
	Producer Producer
	// MaxIdle is how long a partition that is caught up may hold up the others; 0 means not at all (KIP-695).
	MaxIdle time.Duration
	// CacheBytes is what clean cells may hold after a commit, for all stores of the task.
	CacheBytes int64
	// Dropped counts records that were left out on purpose; nil is allowed.
	Dropped func(reason string)
}

// Task is one partition group of one sub-topology. It belongs to one goroutine.
type Task struct {
	cfg      Config
	machine  *lifecycle.Machine[lifecycle.Task]
	chain    Chain
	buffers  []*buffer
	overlays []*overlay

	streamTime, wallClock int64
	current               *buffer
	currentOffset         int64
	commitRequested       bool
	outputErr             error
	// moved says that a position moved since the last Prepare.
	moved bool
}

// New returns a task in CREATED. Its processors start with Start.
func New(cfg Config) (*Task, error) {
	t := &Task{cfg: cfg, machine: lifecycle.NewMachine(&lifecycle.TaskTable, cfg.ID.String()), streamTime: -1}
	for i := range cfg.Stores {
		t.overlays = append(t.overlays, newOverlay(i, cfg.State, cfg.CacheBytes/int64(len(cfg.Stores))))
	}
	for _, tp := range cfg.Sources {
		t.buffers = append(t.buffers, &buffer{source: tp, time: -1, highWatermark: -1})
	}
	return t, nil
}

// State is the task's lifecycle state.
func (t *Task) State() lifecycle.Task { return t.machine.State() }

// Restoring says that its state is being brought up to date.
func (t *Task) Restoring() { t.machine.Become(lifecycle.TaskRestoring) }

// Start makes the task run from the given positions. The processors are made anew and initialised: after a Rewind
// nothing that a processor keeps in fields may survive what was taken back.
func (t *Task) Start(at broker.Offsets) error {
	for _, b := range t.buffers {
		o, ok := at[b.source]
		if !ok {
			return t.fail(fmt.Errorf("no position for %s", b.source))
		}
		b.seek(o.At)
		b.committed, b.time = o.At, PartitionTime(o.Metadata)
		b.committedTime = b.time
		t.streamTime = max(t.streamTime, b.time)
	}
	if err := t.guard(t.init); err != nil {
		return err
	}
	t.machine.Become(lifecycle.TaskRunning)
	return nil
}

func (t *Task) init() error {
	chain, err := t.cfg.Chain(host{t})
	if err != nil {
		return err
	}
	t.chain = chain
	if err := chain.Init(); err != nil {
		return err
	}
	for _, b := range t.buffers {
		if b.process, err = chain.Source(b.source.Topic); err != nil {
			return err
		}
	}
	return t.outputErr
}

// Seek moves one partition to another position, which counts as processed up to there.
func (t *Task) Seek(tp record.TopicPartition, at int64) {
	if b := t.buffer(tp); b != nil {
		b.seek(at)
		t.moved = true
	}
}

func (t *Task) buffer(tp record.TopicPartition) *buffer {
	for _, b := range t.buffers {
		if b.source == tp {
			return b
		}
	}
	return nil
}

// Add takes a batch. It is refused if it does not start where the last one of its partition ended: its reader was moved.
func (t *Task) Add(batch broker.Batch) bool {
	b := t.buffer(batch.Source)
	if b == nil {
		return false
	}
	before := b.consumed
	ok := b.add(batch)
	t.moved = t.moved || b.consumed != before
	return ok
}

// Process takes up to budget records through the processors, lowest timestamp first across the partitions.
func (t *Task) Process(now time.Time, budget int) (n int, err error) {
	t.wallClock = now.UnixMilli()
	err = t.guard(func() (err error) {
		if len(t.buffers) == 1 {
			n, err = t.processOne(t.buffers[0], budget)
		} else {
			n, err = t.processLowest(budget)
		}
		return err
	})
	if n > 0 {
		t.moved = true
	}
	t.current = nil
	return n, err
}

// processOne is the usual case, one partition: no choice to make.
func (t *Task) processOne(b *buffer, budget int) (n int, err error) {
	t.current = b
	for ; n < budget; n++ {
		r := b.head()
		if r == nil {
			return n, nil
		}
		if err := t.take(b, r); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (t *Task) take(b *buffer, r *record.Raw) error {
	t.currentOffset = r.Offset
	if r.Timestamp > b.time {
		b.time = r.Timestamp
		t.streamTime = max(t.streamTime, b.time)
	}
	if err := b.process(r); err != nil {
		return err
	}
	b.advance()
	return nil
}

func (t *Task) processLowest(budget int) (n int, err error) {
	for ; n < budget; n++ {
		if ready, _ := t.ready(); !ready {
			return n, nil
		}
		var lowest *buffer
		for _, b := range t.buffers {
			if r := b.head(); r != nil && (lowest == nil || r.Timestamp < lowest.head().Timestamp) {
				lowest = b
			}
		}
		if lowest == nil {
			return n, nil
		}
		t.current = lowest
		if err := t.take(lowest, lowest.head()); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Ready says whether records may be taken up (KIP-695): every partition has some, or those that have none are caught up
// with what their leader is known to hold and have been so for MaxIdle. next is when to ask again; zero if only new
// batches can change the answer.
func (t *Task) Ready(now time.Time) (ready bool, next time.Time) {
	t.wallClock = now.UnixMilli()
	ready, at := t.ready()
	if at > 0 {
		next = time.UnixMilli(at)
	}
	return ready, next
}

func (t *Task) ready() (ready bool, next int64) {
	some := false
	for _, b := range t.buffers {
		if b.head() != nil {
			some, b.idleSince = true, 0
			continue
		}
		if !b.caughtUp() {
			next = -1
			continue
		}
		if b.idleSince == 0 {
			b.idleSince = t.wallClock
		}
		if until := b.idleSince + t.cfg.MaxIdle.Milliseconds(); t.wallClock < until && next >= 0 {
			next = max(next, until)
		}
	}
	if !some || next < 0 {
		return false, 0
	}
	return next == 0, next
}

// Punctuate fires what is due.
func (t *Task) Punctuate(now time.Time) error {
	t.wallClock = now.UnixMilli()
	return t.guard(func() error { return t.chain.Punctuate(t.streamTime, t.wallClock) })
}

// NextWallClock is when a wall-clock punctuation is due next.
func (t *Task) NextWallClock() (time.Time, bool) {
	at, ok := t.chain.NextWallClock()
	return time.UnixMilli(at), ok
}

// Credits visits what was consumed since the last call.
func (t *Task) Credits(visit func(tp record.TopicPartition, bytes int)) {
	for _, b := range t.buffers {
		if b.owed > 0 {
			visit(b.source, b.owed)
			b.owed = 0
		}
	}
}

// NeedsCommit says that something changed since the last Prepare.
func (t *Task) NeedsCommit() bool {
	if t.moved {
		return true
	}
	for _, o := range t.overlays {
		if len(o.dirty) > 0 {
			return true
		}
	}
	return false
}

// CommitRequested says that a processor asked for a commit since the last Prepare.
func (t *Task) CommitRequested() bool { return t.commitRequested }

// Uncommitted is what the active generation holds, in bytes.
func (t *Task) Uncommitted() (bytes int64) {
	for _, o := range t.overlays {
		bytes += o.uncommitted
	}
	return bytes
}

// Prepare ends an interval: aggregations emit, changelog records go out, and what the commit covers is frozen. There is at
// most one unit on its way; the next Prepare comes after Applied or Rewind.
func (t *Task) Prepare(now time.Time) (*Unit, error) {
	t.wallClock = now.UnixMilli()
	if err := t.guard(t.chain.Flush); err != nil {
		return nil, err
	}
	u := &Unit{Task: t.cfg.ID, Offsets: broker.Offsets{}, Position: record.Position{}, WallClock: t.wallClock}
	for _, b := range t.buffers {
		u.Offsets[b.source] = broker.Offset{At: b.consumed, Metadata: Metadata(b.time)}
		u.Position[b.source] = b.consumed
	}
	for i, o := range t.overlays {
		if len(o.dirty) == 0 {
			continue
		}
		first := len(u.Writes)
		o.freeze(u)
		if t.cfg.Stores[i].Changelog.Topic == "" {
			continue
		}
		u.Changelogs = append(u.Changelogs, i)
		if err := t.changelog(t.cfg.Stores[i].Changelog, u.Writes[first:], u.Position); err != nil {
			return nil, t.fail(err)
		}
	}
	t.moved, t.commitRequested = false, false
	return u, nil
}

// changelog writes one record per key; the last one carries the position.
func (t *Task) changelog(tp record.TopicPartition, writes []Write, p record.Position) error {
	r := &record.Raw{}
	for i, w := range writes {
		r.Key, r.Value, r.Timestamp = w.Key, w.Value, max(w.Timestamp, 0)
		if i == len(writes)-1 {
			r.Headers = record.Headers{{Key: record.PositionHeader, Value: record.EncodePosition(p)}}
		}
		if err := t.cfg.Producer.Append(tp, r); err != nil {
			return err
		}
	}
	return nil
}

// Committed says that Kafka has the unit's offsets.
func (t *Task) Committed(u *Unit) {
	for _, b := range t.buffers {
		b.committed, b.committedTime = u.Offsets[b.source].At, PartitionTime(u.Offsets[b.source].Metadata)
	}
}

// Applied says that the state has the unit's writes.
func (t *Task) Applied(*Unit) {
	for _, o := range t.overlays {
		o.clean()
	}
}

// Rewind goes back to the last commit and to RESTORING: both generations, the buffers and the processors are dropped. It
// returns where to start again.
func (t *Task) Rewind() broker.Offsets {
	at := broker.Offsets{}
	t.streamTime = -1
	for _, b := range t.buffers {
		at[b.source] = broker.Offset{At: b.committed, Metadata: Metadata(b.committedTime)}
		b.seek(b.committed)
	}
	for _, o := range t.overlays {
		o.drop()
	}
	t.moved, t.commitRequested = false, false
	t.closeChain()
	t.machine.Become(lifecycle.TaskRestoring)
	return at
}

func (t *Task) closeChain() error {
	if t.chain == nil {
		return nil
	}
	chain := t.chain
	t.chain = nil
	return t.guard(chain.Close)
}

// Close closes the processors. What was not committed is gone. Its error is the processors'.
func (t *Task) Close() error {
	if t.machine.Can(lifecycle.TaskSuspended) {
		t.machine.Become(lifecycle.TaskSuspended)
	}
	err := t.closeChain()
	t.machine.Become(lifecycle.TaskClosed)
	return err
}

// guard runs user code: its panic becomes an error, and either gets the record's coordinates. It is entered once per
// batch, not per record.
func (t *Task) guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = t.fail(&Panic{Value: v, Stack: debug.Stack()})
		}
	}()
	if err := f(); err != nil {
		return t.fail(err)
	}
	return nil
}

func (t *Task) fail(cause error) error {
	if p := (*ProcessError)(nil); errors.As(cause, &p) {
		return cause
	}
	e := &ProcessError{Task: t.cfg.ID, Cause: cause}
	if t.current != nil {
		e.Source, e.Offset = t.current.source, t.currentOffset
	}
	return e
}
