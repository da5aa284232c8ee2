package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// transport is a way to one node. Its error is a *query.Failure; the reply may hold one too.
type transport interface {
	ask(ctx context.Context, q query.Question) (*querypb.Reply, error)
	close()
}

// single is a query.Client for one node.
//
// The mutex protects the counts of partitions, which do not change while a node lives, so that each is asked for once. They
// are forgotten with every failure that may mean that another node is there now.
type single struct {
	transport
	mu         sync.Mutex
	partitions map[string]int32
}

var _ query.Client = (*single)(nil)

// Ask implements query.Client.
func (s *single) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	if _, ok := ctx.Deadline(); !ok {
		// A node answers in MaxWait, if it lives; a caller who sets no deadline finds out that it does not.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, query.MaxWait+PingWait)
		defer cancel()
	}
	reply, err := s.ask(ctx, q)
	if err == nil {
		err = query.FromReply(reply)
	}
	if err != nil {
		if errors.Is(err, query.ErrStreamThreadNotRunning) || errors.Is(err, query.ErrStateStoreNotAvailable) {
			s.mu.Lock()
			clear(s.partitions)
			s.mu.Unlock()
		}
		return nil, err
	}
	return reply, nil
}

// Partitions implements query.Client.
func (s *single) Partitions(ctx context.Context, store string) (int32, error) {
	s.mu.Lock()
	n := s.partitions[store]
	s.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	reply, err := s.Ask(ctx, &querypb.ListStores{About: &querypb.About{Store: store}})
	if err != nil {
		return 0, err
	}
	list := reply.GetStores()
	for _, info := range list.GetStores() {
		if info.GetName() == store && info.GetPartitions() > 0 {
			s.mu.Lock()
			s.partitions[store] = info.GetPartitions()
			s.mu.Unlock()
			return info.GetPartitions(), nil
		}
	}
	kind, _ := query.Decide(query.Situation{Node: nodeState(list.GetNodeState()), Declared: true})
	f := query.New(kind, store, query.NoPartition)
	f.NodeState = list.GetNodeState()
	return 0, f
}

// nodeState finds a state by its name; one of a newer release is taken for RUNNING.
func nodeState(name string) lifecycle.Node {
	for s := lifecycle.NodeCreated; s <= lifecycle.NodeError; s++ {
		if s.String() == name {
			return s
		}
	}
	return lifecycle.NodeRunning
}

// line is the transport by actors' messages: at most one session at a time, made when it is needed.
//
// The mutex protects the fields below it: many goroutines ask, and one attempt to connect serves all of them.
type line struct {
	settings settings
	address  string
	bytes    *atomic.Int64

	mu      sync.Mutex
	current *session
	attempt *attempt
	closed  bool
}

// attempt is one try to connect. session or failure is set when done is closed.
type attempt struct {
	done    chan struct{}
	session *session
	err     error
	at      time.Time
}

func (l *line) ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	about := q.GetAbout()
	s, err := l.connected(ctx)
	if err != nil {
		return nil, failure(ctx, about, err, query.StreamThreadNotRunning)
	}
	to := s.stream.app + "/query"
	if !query.OfNode(q) {
		to = gateID(s.stream.app, about.GetStore(), about.GetPartition())
	}
	reply, err := l.send(ctx, s, to, q)
	if err != nil {
		return nil, failure(ctx, about, err, query.StateStoreNotAvailable)
	}
	return reply, nil
}

func (l *line) send(ctx context.Context, s *session, to string, q query.Question) (*querypb.Reply, error) {
	encoded, err := encode(ctx, q)
	if err != nil {
		return nil, &badQuestion{err}
	}
	return s.ask(ctx, to, string(proto.MessageName(q)), encoded)
}

// badQuestion is one that cannot be sent.
type badQuestion struct{ cause error }

// Error implements error.
func (b *badQuestion) Error() string { return "the question cannot be encoded: " + b.cause.Error() }

// Unwrap gives the cause.
func (b *badQuestion) Unwrap() error { return b.cause }

// failure makes a *query.Failure of what went wrong on the way; gone is the kind for a node that is not there.
func failure(ctx context.Context, about *querypb.About, err error, gone query.Kind) *query.Failure {
	partition := query.NoPartition
	if about != nil && about.Partition != nil {
		partition = *about.Partition
	}
	if ctx.Err() != nil {
		return query.GaveUp(ctx, about.GetStore(), partition)
	}
	f := query.New(gone, about.GetStore(), partition)
	bad := (*badQuestion)(nil)
	switch code := status.Code(err); {
	case errors.As(err, &bad):
		f = query.Invalid(about.GetStore(), partition, "it cannot be encoded: names must be UTF-8")
	case errors.Is(err, errFull) || code == codes.ResourceExhausted:
		f = query.New(query.Overloaded, about.GetStore(), partition)
	case code == codes.Unauthenticated || code == codes.PermissionDenied || errors.Is(err, errStranger) || untrusted(err):
		f = query.Invalid(about.GetStore(), partition, "the node does not take this caller: check the address, the token and the certificates")
	case gone == query.StateStoreNotAvailable:
		f.Detail = "the connection to the node was lost"
	default:
		f.Detail = "the node cannot be reached"
	}
	f.Cause = err
	return f
}

// connected waits for a session until ctx ends.
func (l *line) connected(ctx context.Context) (*session, error) {
	l.mu.Lock()
	if l.current != nil && l.current.alive() {
		defer l.mu.Unlock()
		return l.current, nil
	}
	if l.closed {
		l.mu.Unlock()
		return nil, errClosed
	}
	a := l.attempt
	if a == nil || a.over() && (a.err == nil || time.Since(a.at) > retryTime) {
		a = &attempt{done: make(chan struct{})}
		l.attempt = a
		go l.connect(a)
	}
	l.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errClosed = errors.New("the client was closed")

func (a *attempt) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// connect does not depend on the context of whoever happened to ask first: others wait for it too.
func (l *line) connect(a *attempt) {
	s, err := l.settings.open(context.Background(), l.address, clientHello)
	l.mu.Lock()
	defer l.mu.Unlock()
	a.at, a.err = time.Now(), err
	if err == nil && l.closed {
		s.close()
		a.err = errClosed
	} else if err == nil {
		a.session = newSession(s, l.bytes)
		l.current = a.session
	}
	close(a.done)
}

func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	a, s := l.attempt, l.current
	l.mu.Unlock()
	if a != nil {
		<-a.done
		s = a.session
	}
	if s != nil {
		s.close()
	}
}
