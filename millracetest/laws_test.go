package millracetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// Every law has to be seen to fire: these are the worlds that no right node makes.

var (
	said  = topology.NewTopic("said", codec.String, codec.String)
	times = topology.NewKeyValueStore("times", codec.String, codec.Int64)
)

func talking(tb testing.TB) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder()
	topology.Aggregate(topology.From(b, said), times, func() int64 { return 0 }, func(_, _ string, n int64) (int64, error) { return n + 1, nil })
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// looking is a check whose patience is over.
func looking(ctx context.Context, c *Cluster, t *topology.Topology) *checking {
	over := make(chan struct{})
	close(over)
	return &checking{Oracle: NewOracle(t), ctx: ctx, cluster: c, bound: t.Bind(c.app), deadline: over}
}

// broken says that there are violations of these laws, in this order, and no others.
func broken(t *testing.T, found []Violation, want ...Law) {
	t.Helper()
	var got []Law
	for _, v := range found {
		got = append(got, v.Law)
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

func TestAnAnswerThatGoesBackIsFound(t *testing.T) {
	p := &Probe{name: "node-1", changed: make(chan struct{})}
	tp := record.TopicPartition{Topic: "said"}
	answer := func(at int64, before record.Position) {
		p.answered(Reply{Store: "times", Position: record.Position{tp: at}}, before)
	}
	answer(5, nil)
	answer(3, record.Position{tp: 2}) // asked before the other's answer came
	broken(t, p.backwards())
	answer(4, p.reached("times"))
	broken(t, p.backwards(), WentBack)
}

func TestAProbeKnowsWhatFailed(t *testing.T) {
	p := &Probe{changed: make(chan struct{})}
	p.answered(Reply{Store: "times", Err: query.New(query.StreamThreadRebalancing, "times", 0)}, nil)
	if !p.SawFailure("times", query.ErrStreamThreadRebalancing) {
		t.Error("the failure was not seen")
	}
	if p.SawFailure("times", query.ErrStateStoreMigrated) || p.SawFailure("others", query.ErrStreamThreadRebalancing) {
		t.Error("a failure was seen that nobody was told of")
	}
}

func TestWhatIsLeftIsFound(t *testing.T) {
	c := &Cluster{app: "app", dir: t.TempDir(), before: goleak.IgnoreCurrent()}
	m := &Member{Name: "node-1", StateDir: filepath.Join(c.dir, "node-1")}
	c.members = []*Member{m, m}
	broken(t, c.left())

	dir, err := store.OpenDirectory(m.StateDir, c.app, store.DirectoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken(t, slices.DeleteFunc(c.left(), func(v Violation) bool { return v.Where != m.Name }), Left)
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}

	done, trash := make(chan struct{}), filepath.Join(c.dir, "trash-1")
	go func() { <-done }()
	if err := os.Mkdir(trash, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.Create(filepath.Join(c.dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"goroutines", trash}
	if runtime.GOOS == "linux" { // elsewhere the system does not tell what is open
		want = []string{"goroutines", open.Name(), trash}
	}
	var got []string
	for _, v := range c.left() {
		got = append(got, v.Where)
	}
	if !slices.Equal(got, want) {
		t.Errorf("left is %v, want %v", got, want)
	}
	close(done)
	if err := errors.Join(open.Close(), os.Remove(trash), os.Remove(open.Name())); err != nil {
		t.Fatal(err)
	}
	broken(t, c.left())
	c.dir += "-gone"
	c.members = nil
	broken(t, c.left(), Unknown)
}

func TestStatesAndTransitionsOfNoTableAreFound(t *testing.T) {
	c, m := &checking{}, &Member{Name: "node-1"}
	right := millrace.Actor{Path: "/app", Kind: millrace.KindNode, State: lifecycle.NodeRunning.String(), Children: []millrace.Actor{{Kind: millrace.KindQuery}}}
	broken(t, c.declared(m, right))
	wrong := right
	wrong.Children = []millrace.Actor{
		{Kind: millrace.KindThread, State: lifecycle.ThreadRebalancing.String(), Children: []millrace.Actor{{Kind: millrace.KindTask, State: "DREAMING"}}},
		{Kind: millrace.KindStore},
	}
	broken(t, c.declared(m, wrong), NotRunning, Undeclared, Undeclared)

	move := func(kind, from, to string) {
		c.transition(m, millrace.Event{Kind: kind, Old: from, New: to})
	}
	move(millrace.KindNode, lifecycle.NodeCreated.String(), lifecycle.NodeRebalancing.String())
	move(millrace.KindNode, "", lifecycle.NodeCreated.String())
	move(millrace.KindQuery, "A", "B")
	broken(t, c.found)
	move(millrace.KindNode, lifecycle.NodeNotRunning.String(), lifecycle.NodeRunning.String())
	move(millrace.KindStore, lifecycle.StoreClosed.String(), lifecycle.StoreOpening.String())
	broken(t, c.found, Undeclared, Undeclared)
}

func TestARefusedRuleIsFound(t *testing.T) {
	m := &Member{Name: "node-1", Faults: NewFaults(1)}
	m.Faults.At(fault.DiskSync).Panic("boom")
	c := &checking{cluster: &Cluster{members: []*Member{m}}}
	c.faults()
	broken(t, c.found, Vacuous)
}

func TestTimestampsAreComparedUnlessUntimed(t *testing.T) {
	at := func(ms int64) []record.Raw {
		return []record.Raw{{Key: []byte("k"), Value: []byte("v"), Timestamp: ms}}
	}
	for _, test := range []struct {
		opts []OracleOption
		want []Law
	}{{nil, []Law{Invented, Lost}}, {[]OracleOption{Untimed()}, nil}} {
		j := &judging{checking: &checking{Oracle: NewOracle(nil, test.opts...)}, tp: record.TopicPartition{Topic: "totals"}}
		sent := map[record.TaskID][]record.Raw{{}: at(1)}
		j.judge(at(2), sent, sent)
		broken(t, j.found, test.want...)
	}
}

// Two clusters that are taken for one have two owners of each partition. A changelog that lacks a record is not its store's.
func TestWhatIsServedTwiceOrNotLoggedIsFound(t *testing.T) {
	ctx, cancel := patient()
	defer cancel()
	both := &Cluster{app: "app"}
	for range 2 {
		c := NewCluster(t, "app")
		c.CreateTopic("said", 1)
		m := c.Start(talking(t))
		Produce(c, said, R("k", "a"), R("k", "b"))
		m.Drain()
		both.members = append(both.members, m)
	}
	twice := looking(ctx, both, talking(t))
	spec := &twice.bound.SubTopologies[0].Stores[0]
	_, _, found := twice.ask("times", spec, 0)
	broken(t, found, ServedTwice)

	c := looking(ctx, both.members[0].c, talking(t))
	ref := c.replay()
	if ref == nil {
		t.Fatal(c.found)
	}
	defer ref.close()
	c.stores(ref)
	broken(t, c.found)
	tp := record.TopicPartition{Topic: topology.ChangelogTopic("app", "times")}
	ref.logs[tp] = nil
	c.stores(ref)
	broken(t, c.found, Changelog, StoreLog)
}

func TestAnOpenTransactionIsFound(t *testing.T) {
	ctx, cancel := patient()
	defer cancel()
	cluster := NewCluster(t, "app")
	unknown := looking(ctx, cluster, talking(t))
	unknown.ends()
	broken(t, unknown.found, Unknown) // there are no topics yet

	cluster.CreateTopic("said", 1)
	m := cluster.Start(talking(t), millrace.WithThreads(1))
	release := m.Faults.At(fault.ProducerCommit).Block()
	defer release()
	Produce(cluster, said, R("k", "a"))
	m.Faults.AwaitFired(t, fault.ProducerCommit, 1)
	c := looking(ctx, cluster, talking(t))
	c.ends()
	broken(t, c.found, OpenTransaction, Behind)
	release()
	m.Drain()
	c.found, c.deadline = nil, ctx.Done()
	c.ends()
	broken(t, c.found)
}
