package topology_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// memory is a task in memory. Like the real one it writes a new value over the old one's bytes, so that a value that
// shares a cell's memory shows.
type memory struct {
	stores    map[string]*memoryStore
	globals   map[string]globalMemory
	outputs   map[string]*memoryOutput
	stream    int64
	wall      int64
	dropped   map[string]int
	commits   int
	sendError error
	missing   bool
	extracted []int64
	ahead     bool
	refused   func(*record.Raw, int32, *topology.SinkError) error
}

func newMemory() *memory {
	return &memory{stores: map[string]*memoryStore{}, outputs: map[string]*memoryOutput{}, dropped: map[string]int{}, stream: -1}
}

func (m *memory) TaskID() record.TaskID { return record.TaskID{SubTopology: 1, Partition: 2} }
func (m *memory) StreamTime() int64     { return m.stream }
func (m *memory) WallClock() int64      { return m.wall }
func (m *memory) RequestCommit()        { m.commits++ }

func (m *memory) Context() context.Context { return context.Background() }

func (m *memory) Ahead() bool           { return m.ahead }
func (m *memory) Extracted(at int64)    { m.extracted = append(m.extracted, at) }
func (m *memory) Dropped(reason string) { m.dropped[reason]++ }
func (m *memory) Current() (record.TopicPartition, int64, bool) {
	return record.TopicPartition{Topic: "in", Partition: 2}, 7, true
}

func (m *memory) Store(name string) topology.StateStore {
	if m.missing {
		return nil
	}
	if m.stores[name] == nil {
		m.stores[name] = &memoryStore{cells: map[string]*topology.Cell{}, time: -1}
	}
	return m.stores[name]
}

func (m *memory) Global(name string) topology.GlobalState {
	if m.globals[name] == nil {
		return nil
	}
	return m.globals[name]
}

// globalMemory is a global store in memory.
type globalMemory map[string]string

func (g globalMemory) Get(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	v, ok := g[string(key)]
	return []byte(v), 5, ok, nil
}

func (g globalMemory) Scan(from, to []byte, reverse bool) iter.Seq2[topology.GlobalEntry, error] {
	return func(yield func(topology.GlobalEntry, error) bool) {
		keys := slices.Sorted(maps.Keys(g))
		if reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			in := (from == nil || k >= string(from)) && (to == nil || k <= string(to))
			if in && !yield(topology.GlobalEntry{Key: []byte(k), Value: []byte(g[k]), Timestamp: 5}, nil) {
				return
			}
		}
	}
}

func (m *memory) Output(topic string) topology.Output {
	if m.outputs[topic] == nil {
		m.outputs[topic] = &memoryOutput{m: m}
	}
	return m.outputs[topic]
}

type memoryStore struct {
	cells map[string]*topology.Cell
	dirty []*topology.Cell
	time  int64
	err   error
}

func (s *memoryStore) Cell(key []byte) (*topology.Cell, error) {
	if s.err != nil {
		return nil, s.err
	}
	c := s.cells[string(key)]
	if c == nil {
		c = &topology.Cell{Key: string(key)}
		s.cells[c.Key] = c
	}
	return c, nil
}

func (s *memoryStore) Set(c *topology.Cell, value []byte, timestamp int64) error {
	if c.Mark == 0 {
		c.Mark = 1
		if !c.Present && value != nil {
			c.Mark = 2 // came since the last Changed
		}
		s.dirty = append(s.dirty, c)
	}
	c.Present, c.Timestamp = value != nil, timestamp
	s.time = max(s.time, timestamp)
	if value == nil {
		c.Value = nil
		return nil
	}
	c.Value = append(c.Value[:0], value...)
	return nil
}

func (s *memoryStore) Range(from, to []byte, reverse bool) iter.Seq2[*topology.Cell, error] {
	return func(yield func(*topology.Cell, error) bool) {
		keys := slices.Sorted(maps.Keys(s.cells))
		if reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			in := (from == nil || k >= string(from)) && (to == nil || k <= string(to))
			if in && s.cells[k].Present && !yield(s.cells[k], nil) {
				return
			}
		}
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

func (s *memoryStore) Changed(f func(*topology.Cell) error) error {
	slices.SortFunc(s.dirty, func(a, b *topology.Cell) int { return cmp.Compare(a.Key, b.Key) })
	for _, c := range s.dirty {
		gone := c.Mark == 2 && !c.Present
		c.Mark = 0
		if gone {
			continue
		}
		if err := f(c); err != nil {
			return err
		}
	}
	s.dirty = s.dirty[:0]
	return nil
}

func (s *memoryStore) Time() int64 { return s.time }

type sent struct {
	Key, Value     string
	NoKey, NoValue bool
	Timestamp      int64
	Partition      int32
}

type memoryOutput struct {
	m    *memory
	sent []sent
	raw  []record.Raw
	mute bool
}

func (o *memoryOutput) Partitions() int32 { return 4 }

func (o *memoryOutput) Refused(r *record.Raw, partition int32, err *topology.SinkError) error {
	if o.m.refused == nil {
		return err
	}
	return o.m.refused(r, partition, err)
}

func (o *memoryOutput) Send(r *record.Raw, partition int32) error {
	if o.m.sendError != nil || o.mute {
		return o.m.sendError
	}
	o.sent = append(o.sent, sent{string(r.Key), string(r.Value), r.Key == nil, r.Value == nil, r.Timestamp, partition})
	key, value := slices.Clone(r.Key), slices.Clone(r.Value)
	o.raw = append(o.raw, record.Raw{Key: key, Value: value, Timestamp: r.Timestamp, Headers: r.Headers})
	return nil
}

// world is every sub-topology of a topology as one task, with repartition topics carried from output to source.
type world struct {
	t         *testing.T
	host      *memory
	instances []*topology.Instance
	sources   map[string]func(*record.Raw) error
}

func start(t *testing.T, b *topology.Builder, host *memory) *world {
	t.Helper()
	w := bare(t, b, host)
	for _, in := range w.instances {
		if err := in.Init(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// bare is start without Init.
func bare(t *testing.T, b *topology.Builder, host *memory) *world {
	t.Helper()
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, host: host, sources: map[string]func(*record.Raw) error{}}
	for _, s := range top.Bind("app").SubTopologies {
		in, err := s.Instantiate(host)
		if err != nil {
			t.Fatal(err)
		}
		w.instances = append(w.instances, in)
		for _, src := range s.Sources {
			if w.sources[src.Topic], err = in.Source(src.Topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

func (w *world) feed(topic, key, value string, timestamp int64) {
	w.t.Helper()
	if err := w.raw(topic, &record.Raw{Key: []byte(key), Value: []byte(value), Timestamp: timestamp}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) raw(topic string, r *record.Raw) error { return w.sources[topic](r) }

// settle carries repartitioned records to their sources and flushes, until nothing moves.
func (w *world) settle() {
	w.t.Helper()
	for moved := true; moved; {
		moved = false
		for _, in := range w.instances {
			if err := in.Flush(); err != nil {
				w.t.Fatal(err)
			}
		}
		for topic, out := range w.host.outputs {
			records := out.raw
			out.raw = nil
			for i := range records {
				if w.sources[topic] == nil || !strings.HasSuffix(topic, "-repartition") {
					break
				}
				moved = true
				if err := w.raw(topic, &records[i]); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

func (w *world) sent(topic string) []sent {
	out := w.host.outputs[topic]
	if out == nil {
		return nil
	}
	s := out.sent
	out.sent = nil
	return s
}

var errBroker = errors.New("the broker fenced the producer")
