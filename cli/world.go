package cli

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// world is what the verbs reach outside of this package. Tests put fakes in its place.
type world interface {
	// Embed starts an embedded broker and returns its addresses and how to stop it.
	Embed() (brokers []string, stop func() error, err error)
	// Connect finds a cluster. It fails if no broker has answered when ctx ends.
	Connect(ctx context.Context, at kafka.Config) (cluster, error)
	// Claims opens the log of claims in topic, and makes it if it is missing.
	Claims(ctx context.Context, at kafka.Config, topic string) (claimLog, error)
	// Node makes a node that does not run yet. It fails on settings that the node refuses.
	Node(appID string, t *topology.Topology, s nodeSettings) (node, error)
}

// nodeSettings are the settings of a node, after all layers and defaults.
type nodeSettings struct {
	settings
	brokers []string
	// createTopics says whether the node makes its internal topics.
	createTopics bool
	stateDir     string
	endpoint     string
	logger       *slog.Logger
	// traces is nil if nothing is traced.
	traces trace.TracerProvider
}

// node are the settings as millrace.New and millrace.Check take them. It fails on files that cannot be used.
func (s *nodeSettings) node() ([]millrace.Option, error) {
	guarantee, err := millrace.ParseGuarantee(s.Guarantee)
	if err != nil {
		return nil, err
	}
	remotes, err := s.remoteSettings.options(s.logger)
	if err != nil {
		return nil, err
	}
	access, err := s.kafkaSettings.options(s.brokers, s.logger)
	if err != nil {
		return nil, err
	}
	return append(append(access, s.clientSettings.options()...),
		millrace.WithGuarantee(guarantee), millrace.WithCreateTopics(s.createTopics), millrace.WithRemote(s.Remote, remotes...),
		millrace.WithStateDir(s.stateDir), millrace.WithThreads(s.Threads), millrace.WithStoreCache(s.storeCache()), millrace.WithLogger(s.logger),
		millrace.WithCommitInterval(s.CommitInterval), millrace.WithEndpoint(s.endpoint), millrace.WithStartTimeout(s.StartTimeout),
		millrace.WithShutdownTimeout(s.ShutdownTimeout), millrace.WithTracerProvider(s.traces), millrace.WithSessionTimeout(s.SessionTimeout)), nil
}

// cluster is a Kafka cluster as the feed needs it. It belongs to one goroutine.
type cluster interface {
	io.Closer
	// Create makes the topics that are missing, and returns those that it has made, of which nobody else has anything yet. It
	// fails with the broker's reason, or if ctx ends before it answers.
	Create(ctx context.Context, topics []string, partitions int32) (made []string, err error)
	// Delete deletes topics; ones that do not exist are passed over. It fails with the broker's reason, or if ctx ends
	// before it answers.
	Delete(ctx context.Context, topics []string) error
	// Tails returns the last record of each partition of a topic, nil for a partition that never had one.
	Tails(ctx context.Context, topic string) ([]*record.Raw, error)
	// Sink opens a topic for writing.
	Sink(topic string) (sink, error)
}

// sink writes to one topic. It belongs to one goroutine.
type sink interface {
	io.Closer
	// Append copies r into a batch of the partition. It waits while too much is unacknowledged, until ctx ends. It
	// fails if an earlier record was refused or lost.
	Append(ctx context.Context, partition int32, r *record.Raw) error
	// Flush waits until everything that was appended is in the log. It fails if a record was refused or lost, or if ctx
	// ends first.
	Flush(ctx context.Context) error
}

// node is a millrace.Node as the verbs need it.
type node interface {
	query.Client
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	// Shutdown commits, closes and, if leave is set, leaves the group.
	Shutdown(ctx context.Context, leave bool) error
	// Drain waits until what the source topics hold now, and all that follows from it, is processed and committed.
	Drain(ctx context.Context) error
	// ProcessID is the process id of the state directory. It fails before the node is RUNNING.
	ProcessID() (string, error)
	Owned() []record.TaskID
	OwnsAll() bool
	Threads() []lifecycle.ThreadStatus
	Watch(ctx context.Context) iter.Seq[stateChange]
	Handler() http.Handler
	// RemoteAddress is the address for other processes; empty if there is none.
	RemoteAddress() string
	// Counts yields every word and its count from every partition of the store, by asking the store actors. A failure is
	// the last thing that is yielded.
	Counts(ctx context.Context, store topology.KeyValueStore[string, int64]) iter.Seq2[count, error]
}

// stateChange is one move of a node or, if thread is set, of one of its threads.
type stateChange struct {
	thread, old, new string
	cause            error
}

// count is how often a word was seen.
type count struct {
	word string
	n    int64
}
