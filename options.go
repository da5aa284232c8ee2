package millrace

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// Option changes one setting of a Node.
type Option func(*options)

// Guarantee is what happens to an input record when something fails.
type Guarantee uint8

const (
	// ExactlyOnce: inputs, state and outputs move together, in transactions. Nothing is lost, nothing counts twice for
	// consumers that read committed records only.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce: nothing is lost; what was processed since the last commit may be processed, and written, again.
	AtLeastOnce
)

func (g Guarantee) String() string {
	switch g {
	case ExactlyOnce:
		return "exactly_once"
	case AtLeastOnce:
		return "at_least_once"
	}
	return fmt.Sprintf("Guarantee(%d)", uint8(g))
}

func (n *Node) exactlyOnce() bool { return n.opts.guarantee == ExactlyOnce }

// ParseGuarantee reads what String writes; anything else is an *OptionError.
func ParseGuarantee(s string) (Guarantee, error) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		if s == g.String() {
			return g, nil
		}
	}
	return 0, &OptionError{"guarantee", fmt.Sprintf("%q is not one of exactly_once, at_least_once", s)}
}

type options struct {
	guarantee      Guarantee
	brokers        []string
	stateDir       string
	threads        int
	logger         *slog.Logger
	commitInterval time.Duration
	endpoint       string
	startTimeout   time.Duration
	stopTimeout    time.Duration
	session        time.Duration
	heartbeat      time.Duration
	leave          bool
	system         *actor.ActorSystem
	uncaught       func(Failure) Answer
	replication    int16
	cacheBytes     int64
	compression    string
	linger         time.Duration
	clientID       string
	request        time.Duration
	fetchBytes     int
	fetchWait      time.Duration
	restart        actors.Intensity
	patience       thread.Patience
	quarantine     thread.QuarantinePolicy
	metadata       time.Duration
	tls            *tls.Config
	transaction    time.Duration
	recordBytes    int
	directory      func(*store.DirectoryOptions) // what a test changes
	// fault breaks the node in tests; dial makes its connections, nil for the network's.
	fault          fault.Hook
	dial           func(ctx context.Context, network, address string) (net.Conn, error)
	mechanism      string
	user, password string
	meters         metric.MeterProvider
	traces         trace.TracerProvider
	remoteAddr     string
	keepTopics     bool // internal topics are made by somebody else
	remote         []remote.Option
}

func defaults() options {
	return options{
		brokers: []string{"127.0.0.1:9092"}, threads: 2, logger: slog.New(slog.DiscardHandler),
		commitInterval: 100 * time.Millisecond, transaction: 30 * time.Second, startTimeout: 30 * time.Second, stopTimeout: 30 * time.Second,
		session: 10 * time.Second, heartbeat: 3 * time.Second, leave: true, replication: -1, cacheBytes: 64 << 20,
		linger: 20 * time.Millisecond, fetchWait: 100 * time.Millisecond, request: 15 * time.Second, fetchBytes: 1 << 20,
		quarantine: thread.QuarantinePolicy{First: 100 * time.Millisecond, Cap: time.Minute},
		restart:    actors.DefaultIntensity, patience: thread.Patience{Stuck: 30 * time.Second, Poll: 5 * time.Minute}, metadata: 30 * time.Second,
	}
}

// WithBrokers names the cluster: one or more host:port. The default is 127.0.0.1:9092.
func WithBrokers(addrs ...string) Option { return func(o *options) { o.brokers = addrs } }

// WithTLS encrypts the connections to the cluster. RootCAs says whom to trust, Certificates who this node is to brokers
// that ask for client certificates.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// WithSASL authenticates to the cluster. The mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; PLAIN sends the password
// as it is, so use it with TLS only.
func WithSASL(mechanism, user, password string) Option {
	return func(o *options) { o.mechanism, o.user, o.password = mechanism, user, password }
}

// WithStateDir is where stores and the process id live. Two processes must not share one. The default is
// millrace-<application id> in the directory for temporary files, which a machine may empty: set it for real use.
func WithStateDir(dir string) Option { return func(o *options) { o.stateDir = dir } }

// WithThreads is the number of stream threads. The default is 2.
func WithThreads(n int) Option { return func(o *options) { o.threads = n } }

// WithLogger takes what the node has to say. The default is silence, and nil means it too.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if o.logger = l; l == nil {
			o.logger = slog.New(slog.DiscardHandler)
		}
	}
}

// WithCommitInterval is the time between commits. The default is 100 ms.
func WithCommitInterval(d time.Duration) Option { return func(o *options) { o.commitInterval = d } }

// WithEndpoint is this node's host:port for queries, which the other nodes of the application name to callers whose
// partition is here.
func WithEndpoint(hostport string) Option { return func(o *options) { o.endpoint = hostport } }

// WithStartTimeout is how long Run waits for the first answer of a broker. The default is 30 s.
func WithStartTimeout(d time.Duration) Option { return func(o *options) { o.startTimeout = d } }

// WithShutdownTimeout is how long a cancelled Run waits for the last commit and for stores to close. The default is 30 s.
func WithShutdownTimeout(d time.Duration) Option { return func(o *options) { o.stopTimeout = d } }

// WithSessionTimeout is how long the group waits for a heartbeat before it gives this node's partitions to others; the
// heartbeat interval is a third of it, 3 s at most. The default is 10 s; brokers accept 6 s to 30 min unless configured otherwise.
func WithSessionTimeout(d time.Duration) Option {
	return func(o *options) { o.session, o.heartbeat = d, min(d/3, 3*time.Second) }
}

// WithLeaveGroup says whether Shutdown leaves the group, so that others take over at once (the default), or stays a member
// until the session time-out, so that a quick restart causes no rebalance.
func WithLeaveGroup(leave bool) Option { return func(o *options) { o.leave = leave } }

// WithActorSystem runs the node's actors in the caller's system. The default is a system of its own.
func WithActorSystem(s *actor.ActorSystem) Option { return func(o *options) { o.system = s } }

// WithUncaughtHandler decides what happens after a failure that no other policy took. It has a goroutine of its own and may
// call anything on the node, Shutdown included. One that panics ends the node with both causes; one that has not answered
// within 10 s (actors.DefaultPatience), or when the node or the thread is to end, has answered too late. The thread stays
// REBALANCING meanwhile. The default answer is ReplaceThread. Failures that a restart cannot help are not asked about:
// configuration and authorisation end the node.
func WithUncaughtHandler(h func(Failure) Answer) Option {
	return func(o *options) { o.uncaught = h }
}

// WithQuarantine is how a record is tried again at which a task has failed before. Its first failure goes to the failure
// handler, and by default ends in a restart of the thread. From then on the record is tried alone, in a transaction of its
// own, with a back-off between the tries, while the other tasks go on; the task is flagged in Tree and Events. Handlers of
// the topology are asked at each try, and an operator may pass the record (SkipRecord, DeadLetterRecord) or hurry it
// (RetryTask). The default is 100 ms to 1 min, without an end. Attempts bounds the failures of one record: then the node
// ends with a *thread.ExhaustedError. With First = 0 there is no quarantine: each failure goes to the failure handler, and
// too many of them end the node (WithRestarts).
func WithQuarantine(p thread.QuarantinePolicy) Option {
	return func(o *options) { o.quarantine = p }
}

// WithStuckAfter is how long one step of a thread's loop may take before the thread is flagged as stuck: in Tree, in the
// replies of its stores, whose committed state stays readable, and in /readyz. The default is 30 s. Steps of slow user code
// are made short, so only a call that does not return takes that long.
func WithStuckAfter(d time.Duration) Option { return func(o *options) { o.patience.Stuck = d } }

// WithMaxPollInterval is how long one step may take before the thread is given up: it leaves the group, its stores answer
// StateStoreMigrated, and the failure handler is asked, with a *thread.StuckError. The default is 5 min, as Kafka's
// max.poll.interval.ms.
func WithMaxPollInterval(d time.Duration) Option { return func(o *options) { o.patience.Poll = d } }

// WithReplication is the replication factor of internal topics. The default, -1, is the cluster's own default.
func WithReplication(n int16) Option { return func(o *options) { o.replication = n } }

// WithCreateTopics says whether the node makes the internal topics that are missing, which is the default: repartition topics
// and changelogs. Where only administrators may make topics, turn it off: then Run returns a *MissingInternalTopicsError,
// which has the commands that make them.
func WithCreateTopics(create bool) Option { return func(o *options) { o.keepTopics = !create } }

// WithStoreCache is how many bytes of hot state all stores of the node may keep in memory: as values that are ready to use,
// about 170 bytes each beside key and value, and up to five eighths of it packed, about 30. A key that has neither costs a read
// from disk. The engine's memtables and blocks take as much again. The default is 64 MiB.
func WithStoreCache(bytes int64) Option { return func(o *options) { o.cacheBytes = bytes } }

// WithGuarantee chooses between exactly once, the default, and at least once.
func WithGuarantee(g Guarantee) Option { return func(o *options) { o.guarantee = g } }

// WithTransactionTimeout is how long a transaction may be open before the cluster aborts it. It has to be well above the
// commit interval, and not above the brokers' transaction.max.timeout.ms. The default is
// 30 s: a cluster takes 9 to 11 s to replace a coordinator that died.
func WithTransactionTimeout(d time.Duration) Option { return func(o *options) { o.transaction = d } }

// WithMaxRecordBytes is the largest record that the node writes, dead letters included; a larger one is a production error.
// The default is 1,000,000, which every topic takes that is not configured otherwise (max.message.bytes).
func WithMaxRecordBytes(n int) Option { return func(o *options) { o.recordBytes = n } }

// WithCompression compresses what is produced: "none" (the default), "gzip", "snappy", "lz4" or "zstd".
func WithCompression(name string) Option { return func(o *options) { o.compression = name } }

// WithRestarts bounds how a failing thread is replaced: back-off and intensity.
func WithRestarts(i actors.Intensity) Option { return func(o *options) { o.restart = i } }

// WithMetadataRefresh is how often topics are looked at for new partitions. The default is 30 s.
func WithMetadataRefresh(d time.Duration) Option { return func(o *options) { o.metadata = d } }

// OptionError is a setting that New refuses.
type OptionError struct{ Option, Problem string }

// Error names the setting, what is wrong with it, and what would be right.
func (e *OptionError) Error() string { return "millrace: " + e.Option + ": " + e.Problem }

// Check fails as New would for what is wrong about the application id, the options or the topology, and does nothing else:
// it listens nowhere. That the address of WithRemote is free, only New can say. Its error joins every *OptionError.
func Check(appID string, t *topology.Topology, opts ...Option) error {
	_, err := chosen(appID, t, opts)
	return err
}

// chosen are the options over the defaults.
func chosen(appID string, t *topology.Topology, opts []Option) (options, error) {
	o := defaults()
	for i, opt := range opts {
		if opt == nil {
			return o, &OptionError{"options", fmt.Sprintf("number %d is nil: leave it out", i+1)}
		}
		opt(&o)
	}
	if err := o.validate(appID); err != nil {
		return o, err
	}
	if t == nil {
		return o, &OptionError{"topology", "it is nil: build one with topology.NewBuilder"}
	}
	return o, nil
}

var appIDPattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

// validate returns every mistake at once.
func (o *options) validate(app string) error {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, &OptionError{option, fmt.Sprintf(format, args...)})
	}
	if !appIDPattern.MatchString(app) || app == "." || app == ".." {
		bad("application id", "%q is not usable in topic, group and directory names: use 1 to 100 of a-z A-Z 0-9 . _ -", app)
	}
	if len(o.brokers) == 0 {
		bad("WithBrokers", "no broker is named: give at least one host:port")
	}
	for _, b := range o.brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			bad("WithBrokers", "%q is not host:port, such as 127.0.0.1:9092", b)
		}
	}
	if o.mechanism+o.user+o.password != "" {
		switch {
		case o.user == "" || o.password == "":
			bad("WithSASL", "the user or the password is empty: give both")
		case o.mechanism != "PLAIN" && o.mechanism != "SCRAM-SHA-256" && o.mechanism != "SCRAM-SHA-512":
			bad("WithSASL", "mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", o.mechanism)
		}
	}
	if o.threads < 1 || o.threads > 1024 {
		bad("WithThreads", "%d threads: use 1 to 1024", o.threads)
	}
	if o.guarantee > AtLeastOnce {
		bad("WithGuarantee", "%s is not one of ExactlyOnce, AtLeastOnce", o.guarantee)
	}
	if o.commitInterval <= 0 {
		bad("WithCommitInterval", "%s is not a positive duration", o.commitInterval)
	}
	if o.transaction < o.commitInterval {
		bad("WithTransactionTimeout", "%s is less than the commit interval of %s: every transaction would be aborted", o.transaction, o.commitInterval)
	}
	if o.recordBytes < 0 {
		bad("WithMaxRecordBytes", "%d is negative", o.recordBytes)
	}
	o.checkClients(bad)
	for option, d := range map[string]time.Duration{
		"WithSessionTimeout": o.session, "WithStartTimeout": o.startTimeout, "WithShutdownTimeout": o.stopTimeout, "WithMetadataRefresh": o.metadata,
	} {
		if d <= 0 {
			bad(option, "%s is not a positive duration", d)
		}
	}
	o.checkPatience(bad)
	if o.replication < 1 && o.replication != -1 {
		bad("WithReplication", "%d copies: use 1 or more, or -1 for the cluster's default", o.replication)
	}
	if o.cacheBytes < 0 {
		bad("WithStoreCache", "%d bytes: use 0 or more", o.cacheBytes)
	}
	if o.endpoint != "" {
		if _, _, err := net.SplitHostPort(o.endpoint); err != nil {
			bad("WithEndpoint", "%q is not host:port", o.endpoint)
		}
	}
	if !slices.Contains([]string{"", "none", "gzip", "snappy", "lz4", "zstd"}, o.compression) {
		bad("WithCompression", "%q is not one of none, gzip, snappy, lz4, zstd", o.compression)
	}
	if problem := o.checkRemote(); problem != "" {
		bad("WithRemote", "%s", problem)
	}
	if o.stateDir == "" {
		o.stateDir = filepath.Join(os.TempDir(), "millrace-"+app)
	}
	return errors.Join(errs...)
}

func (o *options) checkPatience(bad func(option, problem string, args ...any)) {
	if o.patience.Stuck <= 0 || o.patience.Poll < o.patience.Stuck {
		bad("WithMaxPollInterval", "%s and WithStuckAfter(%s): use positive durations, the second not above the first", o.patience.Poll, o.patience.Stuck)
	}
}
