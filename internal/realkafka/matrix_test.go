//go:build realkafka

package realkafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/matrix"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// TestMatrixTwoProcesses is level 3 of package matrix: nodes in processes of their own, on real Kafka, go through the
// transition of each case, and the typed client asks one of them from this process.
func TestMatrixTwoProcesses(t *testing.T) {
	c := realkafka.For(t, 1)
	for i, row := range matrix.Rows {
		if row.At(3).Test == "" {
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			for j, k := range row.Cases {
				if row.NA(3, &k) != "" {
					continue
				}
				t.Run(k.Name, func(t *testing.T) {
					reach := processTransitions[row.ID+"/"+k.Name]
					if reach == nil {
						t.Fatal("no transition leads to this case")
					}
					s := newScene(t, c, fmt.Sprintf("app-%d-%d", i, j))
					reach(s)
					s.wants(k.Want, s.ask(k.Ask))
				})
			}
		})
	}
}

// scene is an application with a topic of two partitions, the processes of its nodes, and what the asker holds.
type scene struct {
	t   *testing.T
	ctx context.Context
	c   *realkafka.Cluster
	app string
	w   map[int32]*wire.Producer
	// next is how much was written to each partition.
	next map[int32]int64
	// node is who is asked, there the other node; partition is the one whose key is asked for.
	node, there *remote
	partition   int32
	view        *query.View[string, int64]
	scan        *query.KeyValueIterator[string, int64]
	// global: the nodes have the global store, and globalView is a View of it.
	global     bool
	globalView *query.View[string, string]
}

func newScene(t *testing.T, c *realkafka.Cluster, app string) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &scene{t: t, ctx: ctx, c: c, app: app, w: map[int32]*wire.Producer{}, next: map[int32]int64{}}
	createTopics(t, c.Brokers(), 2, matrixTopic(app))
	for p := range int32(2) {
		s.w[p] = s.producer(s.source(p))
	}
	return s
}

// producer is a new one for a partition.
func (s *scene) producer(tp record.TopicPartition) *wire.Producer {
	s.t.Helper()
	client := wire.New(s.c.Brokers())
	s.t.Cleanup(client.Close)
	w, err := client.NewProducer(s.ctx, tp)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (s *scene) source(p int32) record.TopicPartition {
	return record.TopicPartition{Topic: matrixTopic(s.app), Partition: p}
}

func (s *scene) changelog(p int32) record.TopicPartition {
	return record.TopicPartition{Topic: topology.ChangelogTopic(s.app, "counts"), Partition: p}
}

// matrixKeys are five keys that belong to a partition.
func matrixKeys(partition int32) (keys []string) {
	for i := 0; len(keys) < 5; i++ {
		if k := fmt.Sprintf("k%d", i); record.Partition([]byte(k), 2) == partition {
			keys = append(keys, k)
		}
	}
	return keys
}

// say writes a line for each key.
func (s *scene) say(partition int32, text string, keys ...string) {
	s.t.Helper()
	var records []record.Raw
	for _, k := range keys {
		records = append(records, record.Raw{Key: []byte(k), Value: []byte(text), Timestamp: time.Now().UnixMilli()})
	}
	if err := s.w[partition].Write(s.ctx, records); err != nil {
		s.t.Fatal(err)
	}
	s.next[partition] += int64(len(records))
}

func (s *scene) fill() {
	s.t.Helper()
	for p := range int32(2) {
		s.say(p, "line", matrixKeys(p)...)
	}
}

// create has a process with a node that does not run asked.
func (s *scene) create(change ...func(*matrixNode)) *remote {
	s.t.Helper()
	n := matrixNode{Brokers: s.c.Brokers(), App: s.app, State: s.t.TempDir(), Global: s.global}
	for _, f := range change {
		f(&n)
	}
	s.node = spawn(s.t, "here", n)
	return s.node
}

func (s *scene) run(change ...func(*matrixNode)) *remote {
	s.t.Helper()
	r := s.create(change...)
	r.do("/run")
	return r
}

// another is the other node, which is not asked.
func (s *scene) another() {
	s.t.Helper()
	before := s.node
	s.there = s.run()
	s.there.name = "there"
	s.node = before
}

// running is a node that is asked, RUNNING, with all partitions, each with five keys.
func (s *scene) running(change ...func(*matrixNode)) {
	s.t.Helper()
	s.run(change...)
	s.fill()
	s.awaitServed()
}

// awaitServed waits until the asked node is RUNNING and its stores have taken up what was written.
func (s *scene) awaitServed() {
	s.t.Helper()
	s.node.awaitStatus("is RUNNING", func(st matrixStatus) bool { return st.State == "RUNNING" })
	for p := range int32(2) {
		await(s.t, fmt.Sprintf("partition %d has taken up what was written", p), func(ctx context.Context) error {
			_, _, err := query.Get(ctx, s.node, matrixCounts, matrixKeys(p)[0], query.AtLeast(record.Position{s.source(p): s.next[p]}))
			return err
		})
	}
}

// await waits until it is true of the asked node's view of the partitions.
func (s *scene) await(what string, ok func([]query.Location) bool) {
	s.t.Helper()
	await(s.t, what, func(ctx context.Context) error {
		at, err := query.Locations(ctx, s.node, "counts")
		if err == nil && !ok(at) {
			err = fmt.Errorf("%+v", at)
		}
		return err
	})
}

func (s *scene) awaitState(want string) {
	s.t.Helper()
	s.node.awaitStatus("is "+want, func(st matrixStatus) bool { return st.State == want })
}

func (s *scene) openView() {
	s.t.Helper()
	var err error
	if s.view, err = query.Open(s.ctx, s.node, matrixCounts); err != nil {
		s.t.Fatal(err)
	}
}

// beginScan delivers an entry of pages of two. The second page, if not the second entry, needs the node.
func (s *scene) beginScan() {
	s.t.Helper()
	s.scan = query.Iterate(s.ctx, s.node, matrixCounts, query.Everything[string](), query.PageSize(2, 0), query.Partition(s.partition))
	if _, err := s.scan.Next(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) ask(how matrix.Ask) (err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	key, c := matrixKeys(s.partition)[0], s.node
	get := func(h query.Handle[string, int64], opts ...query.Option) error {
		_, _, err := query.Get(ctx, c, h, key, opts...)
		return err
	}
	switch how {
	case matrix.Open:
		_, err = query.Open(ctx, c, matrixCounts)
	case matrix.Get:
		err = get(matrixCounts)
	case matrix.GetOfView:
		_, _, err = s.view.Get(ctx, key)
	case matrix.GetStrict:
		err = get(matrixCounts, query.RequireRunning())
	case matrix.GetPartition1:
		err = get(matrixCounts, query.Partition(s.partition))
	case matrix.GetPartition9:
		err = get(matrixCounts, query.Partition(9))
	case matrix.GetMisspelt:
		err = get(topology.NewKeyValueStore("count", codec.String, codec.Int64))
	case matrix.GetMistyped:
		err = get(matrixWindowed{matrixCounts})
	case matrix.Next:
		err = s.next2()
	case matrix.NextAfterClose:
		s.scan.Close()
		_, err = s.scan.Next()
	case matrix.Locate:
		_, err = query.Locate(ctx, c, matrixCounts, key)
	case matrix.OpenGlobal:
		_, err = query.Open(ctx, c, matrixCountries(s.app, codec.String))
	case matrix.GetGlobal:
		_, _, err = query.Get(ctx, c, matrixCountries(s.app, codec.String), key)
	case matrix.GetOfGlobalView:
		_, _, err = s.globalView.Get(ctx, key)
	default:
		s.t.Fatalf("%q is not a way to ask here", how)
	}
	return err
}

// next2 is the next step of a scan of another process, which believes a page for 50 ms: two entries of the first page at
// most come before the failure.
func (s *scene) next2() error {
	for range 2 {
		if _, err := s.scan.Next(); err != nil {
			return err
		}
	}
	return nil
}

// matrixWindowed takes the store for a window store.
type matrixWindowed struct{ query.Handle[string, int64] }

func (matrixWindowed) StoreKind() string { return "window" }

// wants compares what came with what the row says. The row's owner is whoever is there.
func (s *scene) wants(want matrix.Outcome, err error) {
	s.t.Helper()
	if want.Kind == 0 {
		if err != nil {
			s.t.Fatalf("%v; want a value", err)
		}
		return
	}
	if want.Owner != "" {
		want.Owner = s.there.address
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
