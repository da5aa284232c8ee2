package task

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Chain is a sub-topology that was instantiated for one task; *topology.Instance is one. It may panic.
type Chain interface {
	Init() error
	Source(topic string) (func(*record.Raw) error, error)
	Flush() error
	Punctuate(streamTime, wallClock int64) error
	NextWallClock() (at int64, ok bool)
	Close() error
}

// Entry is one row of a State.
type Entry struct {
	Key, Value []byte
	Timestamp  int64
}

// State is the task's committed state. Stores are numbered by their index in Config.Stores.
type State interface {
	// Get returns a copy of the value, which is the task's from then on. Three things might happen: a value with ok, an
	// absent key without it, an error of the engine.
	Get(store int, key []byte) (value []byte, timestamp int64, ok bool, err error)
	// Scan gives the rows between from and to, both included, in byte order or backwards; a nil bound is open. A row is
	// valid until the next one. An error is the last thing that is yielded. The task may Get while it scans.
	Scan(store int, from, to []byte, reverse bool) iter.Seq2[Entry, error]
	// Time is the highest timestamp that the store was ever given, -1 if none.
	Time(store int) int64
	// Position is up to where the sources are in the state.
	Position() record.Position
}

// Producer is where a task's records go.
type Producer interface {
	// Append takes a record and copies what r refers to. Two things might happen: the record is on its way, or a
	// *broker.Error says why it never will be (class Record: no broker would take it).
	Append(tp record.TopicPartition, r *record.Raw) error
	// Partitions is a topic's partition count.
	Partitions(topic string) (int32, error)
}

// StoreConfig is one store of a task.
type StoreConfig struct {
	Name string
	// Changelog.Topic is empty if the store has no changelog.
	Changelog record.TopicPartition
}

// Config is what a Task is made of.
type Config struct {
	ID record.TaskID
	// Sources are the task's partition group. Of records with the same timestamp, the partition that is named first
	// comes first.
	Sources []record.TopicPartition
	Stores  []StoreConfig
	// Global gives the global store of a name, nil if there is none; nil is allowed.
	Global func(name string) topology.GlobalState
	// Chain makes the processors. It is called at each Start.
	Chain    func(topology.Host) (Chain, error)
	State    State
	Producer Producer
	// MaxIdle is how long a partition that is caught up may hold up the others (KIP-695, max.task.idle.ms). 0: not at
	// all, only data that is known to be there is waited for. Below 0: nothing is waited for.
	MaxIdle time.Duration
	// CacheBytes is what the clean cells of all stores of the task may hold. Dirty ones are bounded by commits.
	CacheBytes int64
	// Fault is where a test breaks the task; nil otherwise.
	Fault fault.Hook
	// Dropped counts records that were left out on purpose, Answered what was answered about records that failed, as Responses
	// does; nil is allowed.
	Dropped  func(reason string)
	Answered func(topology.Stage, topology.Response)
	// Tracer traces batches; nil traces nothing.
	Tracer Tracer
}

// Task is one partition group of one sub-topology at work. It belongs to one goroutine.
type Task struct {
	cfg      Config
	machine  *lifecycle.Machine[lifecycle.Task]
	chain    Chain
	buffers  []*buffer
	overlays []*overlay
	mem      *memory

	// streamTime is the highest timestamp that was processed, -1 before the first; wallClock is the time of the step.
	// Both are in milliseconds.
	streamTime, wallClock int64
	// ahead says that the state had more than the offsets from which the task has started.
	ahead bool
	// before is stream time without the record in process, partitionBefore that of its partition.
	before, partitionBefore int64
	// current and offset are the record in process; current is nil outside of one.
	current *buffer
	offset  int64
	// moved says that a position moved since the last Prepare, wrote that a record was sent.
	moved, wrote    bool
	commitRequested bool
	// underWay is the unit of the commit that is under way, spare the memory of the one before.
	underWay, spare *Unit
	// taken counts the records that this call of Process has passed.
	taken int
	// handlers, and where dead letters go; nil if nowhere. outputs are the topics that are written.
	handlers    topology.Handlers
	deadLetters *output
	outputs     []*output
	responses   Responses
	// broken is the first error in this call that no handler is asked about.
	broken error
	// failed is why nothing but Rewind, Suspend and Close may be called.
	failed error
	// closing is what processors returned when a Rewind closed them.
	closing error
	// held is the record that Process stops before; see Hold.
	held hold
	// span is of the batch in process, nil without a Tracer or a batch; spans are those of the interval that have ended.
	span  Span
	spans []Span
}

// New returns a task in CREATED. Its processors are made by Start. The error says what the configuration lacks.
func New(cfg Config) (*Task, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("task %s: %w", cfg.ID, err)
	}
	t := &Task{cfg: cfg, machine: lifecycle.NewMachine(&lifecycle.TaskTable, cfg.ID.String()), streamTime: -1}
	t.mem = &memory{state: cfg.State, limit: cfg.CacheBytes, fault: t.fault}
	t.mem.drop()
	for i, s := range cfg.Stores {
		t.overlays = append(t.overlays, newOverlay(i, s.Name, t.mem))
	}
	for _, tp := range cfg.Sources {
		t.buffers = append(t.buffers, &buffer{source: tp, time: -1, end: -1})
	}
	return t, nil
}

func (c *Config) validate() error {
	switch {
	case c.Chain == nil:
		return errors.New("Config.Chain is missing; it makes the processors")
	case c.Producer == nil:
		return errors.New("Config.Producer is missing")
	case c.State == nil && len(c.Stores) > 0:
		return errors.New("Config.State is missing although there are stores")
	case len(c.Sources) == 0:
		return errors.New("Config.Sources is empty; a task reads at least one partition")
	}
	for i, tp := range c.Sources {
		if slices.Contains(c.Sources[:i], tp) {
			return fmt.Errorf("source partition %s is there twice", tp)
		}
	}
	for i, s := range c.Stores {
		if slices.ContainsFunc(c.Stores[:i], func(o StoreConfig) bool { return o.Name == s.Name }) {
			return fmt.Errorf("store %q is there twice", s.Name)
		}
	}
	return nil
}

// ID names the task.
func (t *Task) ID() record.TaskID { return t.cfg.ID }

// State is the task's lifecycle state.
func (t *Task) State() lifecycle.Task { return t.machine.State() }

// Restoring moves a task that is CREATED or SUSPENDED to RESTORING: its state is open and is being brought up to date.
func (t *Task) Restoring() { t.machine.Become(lifecycle.TaskRestoring) }

// Attach replaces the state that the next Start reads from. Stores that were opened anew need it after a Rewind.
func (t *Task) Attach(s State) { t.mem.state = s }

// Start moves a task that is RESTORING to RUNNING, from the given positions: its state has reached the end of the
// changelog. Every source partition must have a position. Partition times come back from the positions' metadata.
//
// The processors are made anew and initialised; now is what the wall clock says to them. Its error is theirs, as a *ProcessError, or says which position is
// missing; the task stays RESTORING then.
func (t *Task) Start(now time.Time, at broker.Offsets) (err error) {
	t.wallClock = now.UnixMilli()
	t.failed, t.broken, t.streamTime, t.ahead, t.held = nil, nil, -1, false, hold{}
	var position record.Position
	if len(t.overlays) > 0 {
		position = t.mem.state.Position()
	}
	for _, b := range t.buffers {
		o, ok := at[b.source]
		if !ok || o.At < 0 {
			return fmt.Errorf("task %s: no position for %s", t.cfg.ID, b.source)
		}
		m, _ := ParseMetadata(o.Metadata)
		b.seek(o.At)
		b.committed, b.time = o, m.PartitionTime
		t.streamTime = max(t.streamTime, b.time)
		t.ahead = t.ahead || position[b.source] > o.At
	}
	if err := t.init(); err != nil {
		return err
	}
	t.machine.Become(lifecycle.TaskRunning)
	return nil
}

func (t *Task) init() (err error) {
	defer t.leave(&err)
	if err, t.closing = t.closing, nil; err != nil {
		return err
	}
	t.handlers, t.deadLetters, t.outputs = topology.Handlers{}, nil, nil
	for _, o := range t.overlays {
		o.begin()
	}
	if t.chain, err = t.cfg.Chain(host{t}); err != nil {
		return err
	}
	if err := t.chain.Init(); err != nil {
		return err
	}
	t.initHandlers()
	for _, b := range t.buffers {
		if b.process, err = t.chain.Source(b.source.Topic); err != nil {
			return err
		}
		if t.cfg.Fault != nil {
			b.process = t.breakable(b)
		}
	}
	return nil
}

// breakable is a source that a test may break before each record. Other tasks have the source itself.
func (t *Task) breakable(b *buffer) func(*record.Raw) error {
	process := b.process
	return func(r *record.Raw) error {
		if err := t.cfg.Fault.At(fault.Site{Point: fault.TaskProcess, Task: t.cfg.ID, Source: b.source, Offset: r.Offset}); err != nil {
			return err
		}
		return process(r)
	}
}

// initHandlers finds the dead-letter topic. One that does not exist fails the Start, not the first record that fails.
func (t *Task) initHandlers() {
	h, ok := t.chain.(Handled)
	if !ok {
		return
	}
	t.handlers = h.Handlers()
	if topic := t.handlers.DeadLetterTopic; topic != "" {
		t.deadLetters = t.output(topic)
		if err := t.deadLetters.err; err != nil {
			t.fault(fmt.Errorf("the dead-letter topic cannot be used: %w; create it", err))
		}
	}
}

// Suspend stops the task: its processors are closed, and what it has not committed is dropped. It can be closed, or be
// restored and started again. The error is the processors', as a *ProcessError; the task is SUSPENDED all the same.
func (t *Task) Suspend() error {
	t.machine.Become(lifecycle.TaskSuspended)
	err := t.closeChain()
	t.drop()
	return err
}

// Close ends the task in whatever state it is. What was not committed is gone. The error is the processors', as a
// *ProcessError; the task is CLOSED all the same. A second Close does nothing.
func (t *Task) Close() error {
	if t.State() == lifecycle.TaskClosed {
		return nil
	}
	var err error
	if t.State() != lifecycle.TaskSuspended {
		err = t.Suspend()
	}
	t.machine.Become(lifecycle.TaskClosed)
	return errors.Join(err, t.closing)
}

func (t *Task) closeChain() (err error) {
	if t.chain == nil {
		return nil
	}
	defer t.leave(&err)
	chain := t.chain
	t.chain = nil
	return chain.Close()
}

// drop forgets everything that is not committed.
func (t *Task) drop() {
	t.mem.drop()
	for _, o := range t.overlays {
		o.drop()
	}
	for _, b := range t.buffers {
		b.seek(b.committed.At)
	}
	t.moved, t.wrote, t.commitRequested = false, false, false
	t.underWay, t.spare, t.spans = nil, nil, nil
}

// enter begins a call that runs user code.
func (t *Task) enter(now time.Time) error {
	if err := t.running(); err != nil {
		return err
	}
	t.wallClock = now.UnixMilli()
	return nil
}

func (t *Task) running() error {
	if t.failed != nil {
		return t.failed
	}
	if t.State() != lifecycle.TaskRunning {
		return fmt.Errorf("task %s is %s: %w", t.cfg.ID, t.State(), ErrNotRunning)
	}
	return nil
}
