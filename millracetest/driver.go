package millracetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

const (
	root = "/state"
	// only is the name of the one thread that there is none of.
	only = "thread-1"
)

// Driver runs a topology step by step. See the package comment for what is true of one.
type Driver struct {
	tb       TB
	opts     options
	topology *topology.Topology
	topics   *topics
	plan     *plan.Plan
	works    []*work
	globals  []*globalWork
	clock    clock
	fs       *vfs.MemFS
	dir      *store.Directory
	system   *actor.ActorSystem
	router   *router.Router
	closed   bool
	// sending is room for the records of a TrySend until all of them can be written.
	sending []broker.Outgoing
}

var _ query.Client = (*Driver)(nil)

// NewDriver starts a topology. It fails the test at once for partition counts that do not fit the topology, and for what a
// processor's Init returns. The Driver is closed when the test ends.
func NewDriver(tb TB, t *topology.Topology, opts ...DriverOption) *Driver {
	tb.Helper()
	d := &Driver{tb: tb, opts: defaults(), topics: newTopics(), fs: memory()}
	for _, o := range opts {
		o(&d.opts)
	}
	d.clock.set(d.opts.now)
	if t == nil {
		tb.Fatalf("millracetest: the topology is nil: build one with topology.NewBuilder")
	}
	d.topology = t.Bind(d.opts.app)
	if err := d.start(); err != nil {
		tb.Fatalf("millracetest: %v", err)
	}
	tb.Cleanup(d.Close)
	return d
}

func memory() *vfs.MemFS { return vfs.NewCrashableMem() }

// start makes topics, tasks and the actors that answer.
func (d *Driver) start() error {
	if err := d.createTopics(); err != nil {
		return err
	}
	d.plan = plan.New(d.opts.app, d.topology, d.topics.counts)
	d.system = actors.NewSystem(d.opts.logger)
	d.router = router.New(d.system, d.opts.app, router.Options{})
	d.router.Declare(d.declared())
	d.router.Node(lifecycle.NodeCreated)
	d.router.Node(lifecycle.NodeRebalancing)
	d.createGlobals()
	d.createWorks()
	if err := d.open(); err != nil {
		return err
	}
	d.router.Node(lifecycle.NodeRunning)
	return nil
}

func (d *Driver) declared() (infos []router.StoreInfo) {
	for _, s := range d.topology.SubTopologies {
		for _, st := range s.Stores {
			infos = append(infos, router.StoreInfo{Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, ValueCodec: st.ValueCodec})
		}
	}
	for _, g := range d.topology.Globals {
		infos = append(infos, router.StoreInfo{Name: g.Name, Kind: g.Kind, KeyCodec: g.KeyCodec, ValueCodec: g.ValueCodec, Global: true})
	}
	return infos
}

func (d *Driver) createTopics() error {
	for _, topic := range d.topology.ExternalTopics() {
		n, ok := d.opts.partitions[topic]
		if !ok {
			n = d.opts.def
		}
		d.topics.counts[topic] = n
	}
	for topic, n := range d.opts.partitions {
		if _, ok := d.topics.counts[topic]; !ok || n < 1 {
			return fmt.Errorf("Partitions(%q, %d): the topology has no such topic, or the count is below 1", topic, n)
		}
	}
	repartition, err := d.topology.RepartitionCounts(d.topics.counts)
	if err != nil {
		return err
	}
	for topic, n := range repartition {
		d.topics.counts[topic] = n
	}
	return d.topology.CheckPartitions(d.topics.counts)
}

// open starts every task on what is on disk and what the changelogs have.
func (d *Driver) open() (err error) {
	d.dir, err = store.OpenDirectory(root, d.opts.app, store.DirectoryOptions{FS: d.fs, CacheBytes: d.opts.cacheBytes, Logger: d.opts.logger, Now: d.clock.now, SpaceRetry: -1})
	if err != nil {
		return err
	}
	for _, g := range d.globals {
		if err := g.open(); err != nil {
			return err
		}
	}
	d.router.Thread(lifecycle.ThreadStatus{Name: only, State: lifecycle.ThreadRebalancing, Since: d.clock.now()})
	for _, w := range d.works {
		if err := w.open(); err != nil {
			return err
		}
	}
	d.router.Thread(lifecycle.ThreadStatus{Name: only, State: lifecycle.ThreadRunning, Since: d.clock.now()})
	return nil
}

// stop ends every task and closes its stores.
func (d *Driver) stop() error {
	var all []error
	for _, w := range d.works {
		all = append(all, w.close())
	}
	for _, g := range d.globals {
		all = append(all, g.close())
	}
	return errors.Join(append(all, d.dir.Close())...)
}

// Close ends the Driver: its processors and stores are closed, and questions end as those to a node that has stopped. It fails the
// test for what a processor's Close returns. A second Close does nothing; NewDriver arranges for one.
func (d *Driver) Close() {
	d.tb.Helper()
	if d.closed {
		return
	}
	d.closed = true
	d.router.Node(lifecycle.NodePendingShutdown)
	err := d.stop()
	d.router.Node(lifecycle.NodeNotRunning)
	d.system.Shutdown()
	if err != nil {
		d.tb.Fatalf("millracetest: %v", err)
	}
}

// Restart closes every task and its stores, and starts them again, as an orderly end and start of a node would.
func (d *Driver) Restart() { d.tb.Helper(); d.again(func() {}) }

// Crash starts every task on what a disk has after a power cut: what was not synced is gone, and comes back from the
// changelogs.
func (d *Driver) Crash() {
	d.tb.Helper()
	if err := d.look(); err != nil {
		d.tb.Fatalf("millracetest: before the crash: %v", err)
	}
	left := d.fs.CrashClone(vfs.CrashCloneCfg{})
	d.again(func() { d.fs = left })
}

// LoseState starts every task on an empty disk: all that a store holds comes back from its changelog, and a store without
// one is empty.
func (d *Driver) LoseState() { d.tb.Helper(); d.again(func() { d.fs = memory() }) }

// look brings every task's engine to its last commit.
func (d *Driver) look() (err error) {
	for _, w := range d.works {
		err = errors.Join(err, w.backlog.look())
	}
	return err
}

func (d *Driver) again(disk func()) {
	d.tb.Helper()
	err := d.stop()
	disk()
	if err = errors.Join(err, d.open(), d.run()); err != nil {
		d.tb.Fatalf("millracetest: starting again: %v", err)
	}
}

// Now is the Driver's time.
func (d *Driver) Now() time.Time { return d.clock.now() }

// Advance moves the clock on, does what is due then, and commits it. It fails the test for what a punctuation returns; see
// TryAdvance.
func (d *Driver) Advance(by time.Duration) {
	d.tb.Helper()
	if err := d.TryAdvance(by); err != nil {
		d.tb.Fatalf("millracetest: advancing by %s: %v", by, err)
	}
}

// TryAdvance is Advance for a test of a failure. Its error is a *task.ProcessError.
func (d *Driver) TryAdvance(by time.Duration) error {
	if err := d.look(); err != nil {
		return err
	}
	d.clock.set(d.clock.now().Add(by))
	return d.run()
}

// Run processes what is there, which is nothing but what a failure has left. Its error is a *task.ProcessError, or the
// *millrace.GlobalRecordError of a record that a global store cannot read: the tasks wait for the store then, as those of a
// node do.
func (d *Driver) Run() error { return d.run() }

// Ask implements query.Client. The stores go by the Driver's time, and a deadline by the caller's: ctx alone keeps it.
func (d *Driver) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	if about := q.GetAbout(); about != nil {
		about.DeadlineMs = 0
	}
	return d.router.Ask(ctx, q)
}

// Partitions implements query.Client.
func (d *Driver) Partitions(ctx context.Context, store string) (int32, error) {
	return d.router.Partitions(ctx, store)
}

// StorePID is the address of a store partition, for tests that ask it as an actor; ActorSystem is where it lives.
func (d *Driver) StorePID(store string, partition int32) *actor.PID {
	return d.router.PID(store, partition)
}

// ActorSystem is the system of the Driver's store actors.
func (d *Driver) ActorSystem() *actor.ActorSystem { return d.system }

// Tasks are the ids of the Driver's tasks, upstream first.
func (d *Driver) Tasks() (ids []record.TaskID) {
	for _, w := range d.works {
		ids = append(ids, w.id)
	}
	return ids
}
