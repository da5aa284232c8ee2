package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/matrix"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// TestMatrixEmbedded is level 2 of package matrix: a node on an embedded broker goes through the transition of each case,
// and the question gets what the row says.
func TestMatrixEmbedded(t *testing.T) {
	for _, row := range matrix.Rows {
		if row.At(2).Test == "" {
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			for _, c := range row.Cases {
				if row.NA(2, &c) != "" {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					reach := transitions[row.ID+"/"+c.Name]
					if reach == nil {
						t.Fatal("no transition leads to this case")
					}
					s := newStage(t)
					reach(s)
					s.wants(c.Want, s.ask(c.Ask))
				})
			}
		})
	}
}

// Every transition belongs to a case, or the table has lost one.
func TestMatrixEmbeddedHasNoTransitionOfItsOwn(t *testing.T) {
	cases := map[string]bool{}
	for _, row := range matrix.Rows {
		for _, c := range row.Cases {
			cases[row.ID+"/"+c.Name] = row.NA(2, &c) == ""
		}
	}
	for name := range transitions {
		if !cases[name] {
			t.Errorf("%q is not a case of level 2", name)
		}
	}
}

// stage is a cluster with the topic "lines" of two partitions, the nodes on it, and what the asker holds. A node that is
// asked has the endpoint here:1, another one there:1.
type stage struct {
	t   *testing.T
	ctx context.Context
	c   *embedded.Cluster
	w   *writer
	// node is the one that is asked; partition is the one whose key is asked for.
	node      *millrace.Node
	partition int32
	// next is how much was written to each partition.
	next  [2]int64
	gates []*gate
	// blocks are the lines that hold their thread, each with a channel that lets it go.
	blocks sync.Map
	view   *query.View[string, int64]
	// countries is the global store of the nodes, if they have one, and global a View of it.
	countries *topology.GlobalStore[string, string]
	global    *query.View[string, string]
	scan      *query.KeyValueIterator[string, int64]
}

func newStage(t *testing.T) *stage {
	c, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	specs := []kafka.TopicSpec{{Name: "lines", Partitions: 2, Replication: -1}, {Name: "word-counts", Partitions: 2, Replication: -1}}
	if err := admin.CreateTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return &stage{t: t, ctx: ctx, c: c, w: newWriter(t, c, "")}
}

// counter counts lines by key. A line that says "poison" breaks the thread each time it is processed, one that says "slip"
// the first time, and one that begins with "block" holds it until it is let go.
func (s *stage) counter() *topology.Topology {
	s.t.Helper()
	var slipped sync.Once
	b := topology.NewBuilder()
	sound := topology.Filter(topology.From(b, lines), func(r record.Record[string, string]) bool {
		if r.Value == "poison" {
			panic("poison")
		}
		if r.Value == "slip" {
			slipped.Do(func() { panic("a slip") })
		}
		if held, ok := s.blocks.Load(r.Value); ok {
			<-held.(chan struct{})
		}
		return true
	})
	topology.To(topology.Count(sound, counts), out)
	if s.countries != nil {
		b.AddGlobalStore(*s.countries)
	}
	topo, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	return topo
}

// create makes a node that does not run, and has it asked. It is stopped when the stage is left.
func (s *stage) create(endpoint string, opts ...millrace.Option) *millrace.Node {
	s.t.Helper()
	all := append([]millrace.Option{millrace.WithBrokers(s.c.Addrs()...), millrace.WithStateDir(s.t.TempDir()), millrace.WithThreads(1),
		millrace.WithEndpoint(endpoint), millrace.WithShutdownTimeout(20 * time.Second)}, opts...)
	n, err := millrace.New("app", s.counter(), all...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.node = n
	s.t.Cleanup(func() {
		for _, g := range s.gates {
			g.open()
		}
		s.stop(n)
	})
	return n
}

// run makes a node and runs it.
func (s *stage) run(endpoint string, opts ...millrace.Option) *millrace.Node {
	s.t.Helper()
	n := s.create(endpoint, opts...)
	go n.Run(context.Background()) // Shutdown returns the same error
	return n
}

// stop ends a node and waits; how it ends is for those who ask.
func (s *stage) stop(n *millrace.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := n.Shutdown(ctx)
	if ctx.Err() != nil {
		s.t.Errorf("the node does not end: %v", err)
	}
	return err
}

// running is a node that is asked, RUNNING, with all partitions and five keys in each.
func (s *stage) running(opts ...millrace.Option) *millrace.Node {
	s.t.Helper()
	n := s.run("here:1", opts...)
	s.ready(n)
	s.fill(0, 1)
	if err := n.Drain(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) ready(n *millrace.Node) {
	s.t.Helper()
	if err := n.Ready(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// fill writes a line for each of five keys of the partitions.
func (s *stage) fill(partitions ...int32) {
	s.t.Helper()
	for _, p := range partitions {
		for _, key := range keysOf(p) {
			s.w.put(record.TopicPartition{Topic: "lines", Partition: p}, line(key))
			s.next[p]++
		}
	}
	s.w.flush()
}

// say writes one line.
func (s *stage) say(partition int32, text string) {
	s.t.Helper()
	s.w.put(record.TopicPartition{Topic: "lines", Partition: partition}, record.Raw{Key: []byte(keysOf(partition)[0]), Value: []byte(text), Timestamp: 1})
	s.w.flush()
	s.next[partition]++
}

// keysOf are five keys that belong to a partition.
func keysOf(partition int32) (keys []string) {
	for i := 0; len(keys) < 5; i++ {
		if k := fmt.Sprintf("k%d", i); record.Partition([]byte(k), 2) == partition {
			keys = append(keys, k)
		}
	}
	return keys
}

// await waits until it is true of the node's view of its partitions.
func (s *stage) await(what string, ok func(at []query.Location) bool) {
	s.t.Helper()
	at, err := []query.Location(nil), error(nil)
	await(s.ctx, s.t, func() bool {
		at, err = query.Locations(s.ctx, s.node, "counts")
		return ok(at)
	}, func() string {
		return fmt.Sprintf("%s: node %s, threads %v, %+v, %v", what, s.node.State(), s.node.Threads(), at, err)
	})
}

func (s *stage) awaitState(want lifecycle.Node) {
	s.t.Helper()
	await(s.ctx, s.t, func() bool { return s.node.State() == want }, func() string { return s.node.State().String() + ", want " + want.String() })
}

func (s *stage) openView() {
	s.t.Helper()
	var err error
	if s.view, err = query.Open(s.ctx, s.node, counts); err != nil {
		s.t.Fatal(err)
	}
}

// beginScan delivers one entry of pages of two, from the partition that is asked for.
func (s *stage) beginScan() {
	s.t.Helper()
	s.scan = query.Iterate(s.ctx, s.node, counts, query.Everything[string](), query.PageSize(2, 0), query.Partition(s.partition))
	if _, err := s.scan.Next(); err != nil {
		s.t.Fatal(err)
	}
}

// gate holds the requests that it is for, from when it is shut until it is opened.
type gate struct {
	once    sync.Once
	opened  chan struct{}
	arrived chan struct{}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// await waits until a request is held.
func (g *gate) await(s *stage) {
	s.t.Helper()
	select {
	case <-g.arrived:
	case <-s.ctx.Done():
		s.t.Fatal("no request came to the gate")
	}
}

// shut makes a gate for the requests of a kind that hold says.
func (s *stage) shut(key kmsg.Key, hold func(kmsg.Request) bool) *gate {
	g := &gate{opened: make(chan struct{}), arrived: make(chan struct{}, 1)}
	s.gates = append(s.gates, g)
	s.c.Kfake().ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.c.Kfake().KeepControl()
		select {
		case <-g.opened:
			return nil, nil, false
		default:
		}
		if hold(r) {
			select {
			case g.arrived <- struct{}{}:
			default:
			}
			s.c.Kfake().SleepControl(func() { <-g.opened })
		}
		return nil, nil, false
	})
	return g
}

func always(kmsg.Request) bool { return true }

// shutRestores holds the reading of changelogs.
func (s *stage) shutRestores() *gate {
	return s.shut(kmsg.Fetch, func(r kmsg.Request) bool {
		for _, topic := range r.(*kmsg.FetchRequest).Topics {
			if topic.Topic == changelog {
				return true
			}
		}
		return false
	})
}

func (s *stage) ask(how matrix.Ask) (err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	key := keysOf(s.partition)[0]
	get := func(h query.Handle[string, int64], opts ...query.Option) error {
		_, _, err := query.Get(ctx, s.node, h, key, opts...)
		return err
	}
	switch how {
	case matrix.Open:
		_, err = query.Open(ctx, s.node, counts)
	case matrix.Get:
		err = get(counts)
	case matrix.GetOfView:
		_, _, err = s.view.Get(ctx, key)
	case matrix.GetStrict:
		err = get(counts, query.RequireRunning())
	case matrix.GetPartition1:
		err = get(counts, query.Partition(s.partition))
	case matrix.GetPartition9:
		err = get(counts, query.Partition(9))
	case matrix.GetMisspelt:
		err = get(topology.NewKeyValueStore("count", codec.String, codec.Int64))
	case matrix.GetMistyped:
		err = get(windowed{counts})
	case matrix.Next:
		_, err = s.scan.Next()
	case matrix.NextAfterClose:
		s.scan.Close()
		_, err = s.scan.Next()
	case matrix.OpenGlobal:
		_, err = query.Open(ctx, s.node, *s.countries)
	case matrix.GetGlobal:
		_, _, err = query.Get(ctx, s.node, *s.countries, key)
	case matrix.GetOfGlobalView:
		_, _, err = s.global.Get(ctx, key)
	case matrix.Locate:
		_, err = query.Locate(ctx, s.node, counts, key)
	default:
		s.t.Fatalf("%q is not a way to ask here", how)
	}
	return err
}

// windowed takes the store for a window store.
type windowed struct{ query.Handle[string, int64] }

func (windowed) StoreKind() string { return "window" }

// wants compares what came with what the row says.
func (s *stage) wants(want matrix.Outcome, err error) {
	s.t.Helper()
	if want.Kind == 0 {
		if err != nil {
			s.t.Fatalf("%v; want a value", err)
		}
		return
	}
	var f *query.Failure
	if !errors.As(err, &f) {
		s.t.Fatalf("%v; want %v", err, want)
	}
	got := matrix.Outcome{Kind: f.Kind, Owner: f.Owner, Progress: f.Progress != nil, LastKey: f.LastKey != nil}
	for _, e := range []error{query.ErrStateStoreClosed, query.ErrEmptyStateStore} {
		if errors.Is(f, e) {
			got.Wraps = e
		}
	}
	if got != want {
		s.t.Errorf("%v, owner %q (%v); want %v, owner %q", got, got.Owner, f, want, want.Owner)
	}
	if f.Retry != want.Kind.Retry() || !strings.Contains(f.Error(), want.Kind.String()) {
		s.t.Errorf("%v advises %v", f, f.Retry)
	}
}
