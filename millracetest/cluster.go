package millracetest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/topology"
)

// Cluster is an application on the embedded broker: three brokers in memory and as many members as the test starts, all in
// this process. Members do not talk to each other but through the brokers; for queries between processes use package
// query/remote and real processes.
type Cluster struct {
	tb      ClusterTB
	app     string
	brokers *embedded.Cluster
	admin   *kafka.Admin
	members []*Member
	started int
	// before are the goroutines that were there when the cluster was made; once ends it.
	before goleak.Option
	once   sync.Once
	// dir holds the state directories; it is removed after the last node has ended.
	dir string
}

// ClusterTB is what a Cluster needs of a test beyond what a Driver does.
type ClusterTB interface {
	TB
	TempDir() string
	Failed() bool
	Logf(format string, args ...any)
}

// NewCluster starts the brokers. Everything ends when the test does.
func NewCluster(tb ClusterTB, app string) *Cluster {
	tb.Helper()
	before := goleak.IgnoreCurrent()
	brokers, err := embedded.Start()
	if err != nil {
		tb.Fatalf("millracetest: %v", err)
	}
	c := &Cluster{tb: tb, app: app, brokers: brokers, before: before, dir: tb.TempDir()}
	tb.Cleanup(c.close)
	if c.admin, err = kafka.NewAdmin(kafka.Config{Brokers: c.Brokers()}); err != nil {
		tb.Fatalf("millracetest: %v", err)
	}
	return c
}

func (c *Cluster) close() { c.once.Do(c.end) }

func (c *Cluster) end() {
	for _, m := range c.members {
		m.release()
	}
	if c.admin != nil {
		c.admin.Close()
	}
	c.brokers.Close()
}

// Brokers are the brokers' addresses, host:port each.
func (c *Cluster) Brokers() []string { return c.brokers.Addrs() }

// CreateTopic makes a topic.
func (c *Cluster) CreateTopic(name string, partitions int32) {
	c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	if err := c.admin.CreateTopics(ctx, []kafka.TopicSpec{{Name: name, Partitions: partitions, Replication: -1}}); err != nil {
		c.tb.Fatalf("millracetest: topic %s: %v", name, err)
	}
}

// MoveLeader gives a partition to another broker.
func (c *Cluster) MoveLeader(topic string, partition int32) {
	c.tb.Helper()
	fake := c.brokers.Kfake()
	next := (fake.LeaderFor(topic, partition) + 1) % int32(len(c.Brokers()))
	if err := fake.MoveTopicPartition(topic, partition, next); err != nil {
		c.tb.Fatalf("millracetest: moving %s-%d to broker %d: %v", topic, partition, next, err)
	}
}

// patient is a context that ends when the kit's patience does.
func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience)
}

// Member is one node of a Cluster, with the faults and the network that it alone has.
type Member struct {
	*millrace.Node
	Faults *Faults
	// Name is node-1 for the first one that was started; StateDir is kept when it ends.
	Name, StateDir string

	c       *Cluster
	network *network
	probe   *Probe
	ran     chan error
	ended   bool
}

// Start starts a node and waits until it is RUNNING. Options that are given win over the kit's: two threads, a commit
// interval of 20 ms, a session of 2 s, a state directory of its own.
func (c *Cluster) Start(t *topology.Topology, opts ...millrace.Option) *Member {
	c.tb.Helper()
	m := c.Launch(t, opts...)
	m.AwaitReady()
	return m
}

// Launch starts a node and does not wait.
func (c *Cluster) Launch(t *topology.Topology, opts ...millrace.Option) *Member {
	c.tb.Helper()
	c.started++
	name := "node-" + strconv.Itoa(c.started)
	return c.launch(name, filepath.Join(c.dir, name), t, opts)
}

// Again starts a node in the state directory of one that has ended, with the same name, and waits until it is RUNNING.
func (c *Cluster) Again(before *Member, t *topology.Topology, opts ...millrace.Option) *Member {
	c.tb.Helper()
	m := c.launch(before.Name, before.StateDir, t, opts)
	m.AwaitReady()
	return m
}

func (c *Cluster) launch(name, dir string, t *topology.Topology, opts []millrace.Option) *Member {
	c.tb.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.tb.Fatalf("millracetest: %v", err)
	}
	m := &Member{Name: name, StateDir: dir, Faults: NewFaults(1), c: c, network: newNetwork(), ran: make(chan error, 1)}
	own := []millrace.Option{
		millrace.WithBrokers(c.Brokers()...), millrace.WithStateDir(dir), millrace.WithThreads(2), millrace.WithCommitInterval(20 * time.Millisecond),
		millrace.WithSessionTimeout(2 * time.Second), millrace.WithShutdownTimeout(20 * time.Second), millrace.WithLogger(slog.New(slog.DiscardHandler)),
		millrace.WithFaults(m.Faults.Hook()), millrace.WithDialer(m.network.dial),
	}
	var err error
	if m.Node, err = millrace.New(c.app, t, append(own, opts...)...); err != nil {
		c.tb.Fatalf("millracetest: %s: %v", name, err)
	}
	m.probe = watch(m)
	go func() { m.ran <- m.Run(context.Background()) }()
	c.members = append(c.members, m)
	return m
}

// Probe is what the node has said so far.
func (m *Member) Probe() *Probe { return m.probe }

// AwaitReady waits until the node is RUNNING.
func (m *Member) AwaitReady() {
	m.c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	if err := m.Ready(ctx); err != nil {
		m.c.tb.Fatalf("millracetest: %s is not RUNNING: %v\n%s", m.Name, err, m.probe)
	}
}

// Await waits until a condition holds, looking at it at each event of the node, and fails the test with the node's events
// if it does not come to hold.
func (m *Member) Await(what string, holds func() bool) {
	m.c.tb.Helper()
	m.probe.await(m.c.tb, what, holds)
}

// AwaitState waits until the node is in a state.
func (m *Member) AwaitState(s lifecycle.Node) {
	m.c.tb.Helper()
	m.Await("the node is "+s.String(), func() bool { return m.State() == s })
}

// Drain waits until everything that was in the source topics, and all that follows from it, is committed.
func (m *Member) Drain() {
	m.c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	if err := m.Node.Drain(ctx); err != nil {
		m.c.tb.Fatalf("millracetest: %s does not drain: %v\n%s", m.Name, err, m.probe)
	}
}

// Stop ends the node in order. It fails the test if that is not possible.
func (m *Member) Stop() {
	m.c.tb.Helper()
	if err := m.end(); err != nil {
		m.c.tb.Fatalf("millracetest: %s did not stop: %v\n%s", m.Name, err, m.probe)
	}
}

// Ended waits for the node's own end, and gives the error that Run returned.
func (m *Member) Ended() error {
	m.c.tb.Helper()
	select {
	case err := <-m.ran:
		m.ran <- err
		return err
	case <-time.After(Patience):
		m.c.tb.Fatalf("millracetest: %s does not end\n%s", m.Name, m.probe)
		return nil
	}
}

func (m *Member) end(how ...millrace.ShutdownOption) error {
	m.pause(false)
	m.ended = true
	ctx, cancel := patient()
	defer cancel()
	err := m.Shutdown(ctx, how...)
	m.probe.end()
	return err
}

// release ends a node that the test has left running.
func (m *Member) release() {
	m.Faults.Clear()
	if !m.ended {
		_ = m.end(millrace.Within(time.Second))
	}
}

// Kill ends the node as the group and the brokers see a process die: its connections break, it commits nothing more, and
// does not leave. Its state directory is closed as it is. What a power cut leaves of one is the Driver's to show, and what
// kill -9 does, a real process's.
func (m *Member) Kill() {
	m.c.tb.Helper()
	m.Partition()
	m.Faults.Clear()
	if err := m.end(millrace.Leave(false), millrace.Within(50*time.Millisecond)); err != nil && !errors.Is(err, millrace.ErrAbandoned) {
		m.c.tb.Logf("%s was killed: %v", m.Name, err)
	}
}

// crash makes the rest of the node's life of no consequence.
func (m *Member) crash() {
	m.Partition()
	m.Faults.die()
}

// Partition cuts the node off from every broker: connections break, and new ones are refused with ErrCut, until Heal.
func (m *Member) Partition() { m.network.set(true) }

// Heal mends what Partition has cut.
func (m *Member) Heal() { m.network.set(false) }

// Pause stops the node as a SIGSTOP does: nothing that it sends or is sent arrives, and its threads' loops wait, until
// Resume. Its timers go on.
func (m *Member) Pause() { m.pause(true) }

// Resume ends a Pause.
func (m *Member) Resume() { m.pause(false) }

func (m *Member) pause(paused bool) {
	m.network.pause(paused)
	m.Faults.pause(paused)
}

// Rebalance has the group rebalance twice: a thread joins, and leaves.
func (m *Member) Rebalance() {
	m.c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	name, err := m.AddThread()
	if err == nil {
		err = m.RemoveThread(ctx, name)
	}
	if err != nil {
		m.c.tb.Fatalf("millracetest: %s does not rebalance: %v\n%s", m.Name, err, m.probe)
	}
}
