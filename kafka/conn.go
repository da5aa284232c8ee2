package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// link is one role's connection to one broker. After any transport error it is cut and opened anew: the library goes on
// calling a dead connection connected, and its Close waits for answers that will not come.
//
// The mutex protects the open connection and the attempt to open one; neither is waited for with it, so that a broker that
// accepts and says nothing keeps nobody from closing the link.
type link struct {
	cfg         Config
	addr        string
	readTimeout time.Duration
	// data is the connection to the same broker for requests that carry records; nil in such a connection itself, which has
	// the stream. The client library must not be asked for anything on it.
	data    *link
	mu      sync.Mutex
	stream  *stream
	broker  *sarama.Broker
	dialer  *keepingDialer // of the broker, or of the attempt that is under way
	opening chan struct{}  // closed when the attempt under way is over; nil if none is
	closed  bool
}

var errClosed = errors.New("kafka: closed")

func (l *link) open() (*sarama.Broker, error) { return l.openUntil(context.Background()) }

// openUntil gives the open connection, or opens one; the end of ctx ends the attempt.
func (l *link) openUntil(ctx context.Context) (*sarama.Broker, error) {
	for {
		l.mu.Lock()
		b, closed, other := l.broker, l.closed, l.opening
		if b == nil && !closed && other == nil {
			break
		}
		l.mu.Unlock()
		switch {
		case closed:
			return nil, errClosed
		case b != nil:
			return b, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	d, over := newKeepingDialer(l.cfg), make(chan struct{})
	l.dialer, l.opening = d, over
	l.mu.Unlock()
	defer close(over)
	uncut := context.AfterFunc(ctx, d.cut)
	b, err := l.connect(d)
	if !uncut() && err != nil {
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening = nil; err != nil {
		l.dialer = nil
		return nil, err
	}
	l.broker = b
	if l.data == nil {
		l.stream = newStream(d.secured, l.readTimeout, l.cfg.requestTimeout(), l.renewal(b))
	}
	return b, nil
}

// renewal is what lets the client library authenticate again on a connection that it has opened: it does so, if it is time,
// before any request.
func (l *link) renewal(b *sarama.Broker) func() error {
	if l.cfg.User == "" {
		return nil
	}
	return func() error {
		_, err := b.ApiVersions(&sarama.ApiVersionsRequest{Version: 3, ClientSoftwareName: "millrace", ClientSoftwareVersion: "1"})
		return err
	}
}

// streamOf gives the stream of an open connection, nil if it was cut meanwhile.
func (l *link) streamOf(b *sarama.Broker) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broker != b {
		return nil
	}
	return l.stream
}

// connect opens a connection: dial, TLS, versions, SASL. A broker that accepts and then says nothing has the request
// time-out, whatever the role's answers may take.
func (l *link) connect(d *keepingDialer) (*sarama.Broker, error) {
	defer time.AfterFunc(l.cfg.requestTimeout(), d.cut).Stop()
	b := sarama.NewBroker(l.addr)
	if err := b.Open(l.cfg.sarama(d, l.readTimeout)); err != nil {
		return nil, err
	}
	if ok, err := b.Connected(); !ok {
		d.cut()
		if err == nil {
			err = errors.New("the broker closed the connection")
		}
		if errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
			err = refusal{err}
		}
		return nil, fmt.Errorf("connect to %s: %w", l.addr, err)
	}
	return b, nil
}

// refusal is a broker's answer to a wrong user or password. The library wraps it so that errors.As does not find its code.
type refusal struct{ error }

func (r refusal) Unwrap() []error { return []error{sarama.ErrSASLAuthenticationFailed, r.error} }

// drop cuts b if it is still the open connection.
func (l *link) drop(b *sarama.Broker) {
	l.mu.Lock()
	current, s := l.broker == b && b != nil, l.stream
	if current {
		l.dialer.cut()
		l.broker, l.dialer, l.stream = nil, nil, nil
	}
	l.mu.Unlock()
	if current && s != nil {
		s.close()
		<-s.done
	}
	if current {
		_ = b.Close()
	}
}

func (l *link) close() {
	l.mu.Lock()
	b := l.broker
	l.closed = true
	if l.dialer != nil {
		l.dialer.cut()
	}
	l.mu.Unlock()
	l.drop(b)
	if l.data != nil {
		l.data.close()
	}
}

// call makes one request; a transport error cuts the connection.
func call[T any](l *link, request func(*sarama.Broker) (T, error)) (T, error) {
	return callUntil(context.Background(), l, request)
}

// callUntil is call with an end: when ctx ends the connection is cut, which is the only thing that makes the library give a
// pending request up, and the error is ctx's cause. Requests of others on the same link are cut too; they try again.
func callUntil[T any](ctx context.Context, l *link, request func(*sarama.Broker) (T, error)) (answer T, err error) {
	b, err := l.openUntil(ctx)
	if err != nil {
		return answer, err
	}
	uncut := context.AfterFunc(ctx, func() { l.drop(b) })
	answer, err = request(b)
	if !uncut() && err != nil {
		return answer, context.Cause(ctx)
	}
	if err != nil && isTransport(err) {
		l.drop(b)
	}
	return answer, err
}

// exchange makes a request that is encoded here; a transport error cuts the connection, and so does the end of ctx.
func exchange(ctx context.Context, l *link, request []byte) ([]byte, error) {
	return callUntil(ctx, l.data, func(b *sarama.Broker) ([]byte, error) {
		s := l.data.streamOf(b)
		if s == nil {
			return nil, net.ErrClosed
		}
		return s.exchange(request)
	})
}

func isTransport(err error) bool {
	var code sarama.KError
	var config sarama.ConfigurationError
	return !errors.As(err, &code) && !errors.As(err, &config)
}

// cluster is one role's view of the cluster: its connections and what it knows of leaders. Never shared between roles: a
// broker answers one connection in order, so a transaction behind an idle fetch waits for it.
//
// The mutex protects the maps, which the role's goroutines share.
type cluster struct {
	cfg         Config
	role        string
	readTimeout time.Duration
	deliver     func(broker.Event)
	mu          sync.Mutex
	links       map[string]*link
	brokers     map[int32]string
	leaders     map[record.TopicPartition]leader
	counts      map[string]int32
	down        bool
	closed      bool
}

type leader struct {
	id    int32
	epoch int32
}

// clients are what the roles of one stream thread are called at the brokers, for their quotas and logs. The roles of others have a
// client id of their own.
var clients = map[string]string{"fetch": "-consumer", "join": "-consumer", "group": "-consumer", "produce": "-producer", "transaction": "-producer"}

func newCluster(cfg Config, role string, readTimeout time.Duration, deliver func(broker.Event)) *cluster {
	if deliver == nil {
		deliver = func(broker.Event) {}
	}
	cfg.ClientID = cfg.clientID() + clients[role]
	return &cluster{cfg: cfg, role: role, readTimeout: readTimeout, deliver: deliver, links: map[string]*link{},
		brokers: map[int32]string{}, leaders: map[record.TopicPartition]leader{}, counts: map[string]int32{}}
}

func (c *cluster) link(addr string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[addr]
	if l == nil {
		l = &link{cfg: c.cfg, addr: addr, readTimeout: c.readTimeout, closed: c.closed}
		l.data = &link{cfg: c.cfg, addr: addr, readTimeout: c.readTimeout, closed: c.closed}
		c.links[addr] = l
	}
	return l
}

func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	links := make([]*link, 0, len(c.links))
	for _, l := range c.links {
		links = append(links, l)
	}
	c.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// note takes the outcome of one request. An answer says that the role is up. No answer says nothing yet: one of three
// brokers may be down, and the look-up of leaders or of a coordinator that follows asks them all.
func (c *cluster) note(err error) {
	if err == nil {
		c.reached(nil)
	}
}

// reached publishes that the role lost its brokers or found one again, once each. A role is down when every broker that it
// knows of, and every seed, was asked in turn and none answered; it is up again with the first answer of any. So Up says
// that the cluster can be asked, not that every partition has a leader or the group a coordinator.
func (c *cluster) reached(err error) {
	c.mu.Lock()
	changed := c.down != (err != nil) && !c.closed
	c.down = err != nil
	c.mu.Unlock()
	if changed {
		c.deliver(broker.ConnectionChanged{Role: c.role, Up: err == nil, Err: err})
	}
}

// addresses are the brokers to ask for metadata: known ones in random order, then the seeds.
func (c *cluster) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	for _, a := range c.brokers {
		addrs = append(addrs, a)
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, a := range c.cfg.Brokers {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// askAll asks one broker after the other until one answers.
func askAll[T any](ctx context.Context, c *cluster, op broker.Op, request func(*sarama.Broker) (T, error)) (answer T, err error) {
	last := errors.New("no broker is named")
	for _, addr := range c.addresses() {
		if answer, last = callUntil(ctx, c.link(addr), request); last == nil {
			c.reached(nil)
			return answer, nil
		}
		if errors.Is(last, errClosed) {
			err := NewError(op, transportCode, record.TopicPartition{}, errClosed)
			err.Class = broker.Fatal // nothing to try again
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, asError(op, record.TopicPartition{}, last)
		}
	}
	c.reached(last)
	return answer, asError(op, record.TopicPartition{}, last)
}

func (c *cluster) metadata(topics []string) (*sarama.MetadataResponse, error) {
	return c.metadataUntil(context.Background(), topics)
}

// metadataUntil asks about topics, and about brokers and the controller, which every answer names. The library sends an
// empty list as a wish for all topics, which may be thousands; so who wants none asks for one that is there anyway.
func (c *cluster) metadataUntil(ctx context.Context, topics []string) (*sarama.MetadataResponse, error) {
	if len(topics) == 0 {
		topics = []string{"__consumer_offsets"}
	}
	answer, err := askAll(ctx, c, broker.OpMetadata, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		return b.GetMetadata(sarama.NewMetadataRequest(version, topics))
	})
	if err == nil {
		c.learn(answer)
	}
	return answer, err
}

func (c *cluster) learn(m *sarama.MetadataResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.brokers)
	for _, b := range m.Brokers {
		c.brokers[b.ID()] = b.Addr()
	}
	for _, t := range m.Topics {
		if t.Err != sarama.ErrNoError {
			continue
		}
		c.counts[t.Name] = int32(len(t.Partitions))
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Name, Partition: p.ID}
			if p.Leader < 0 {
				delete(c.leaders, tp)
			} else if known, ok := c.leaders[tp]; !ok || p.LeaderEpoch >= known.epoch {
				c.leaders[tp] = leader{p.Leader, p.LeaderEpoch}
			}
		}
	}
}

// forget drops what is known of a partition's leader; the next look-up asks.
func (c *cluster) forget(tp record.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leaders, tp)
}

// leaderOf gives the connection to a partition's leader, if it is known.
func (c *cluster) leaderOf(tp record.TopicPartition) (*link, leader, bool) {
	c.mu.Lock()
	led, ok := c.leaders[tp]
	addr, known := c.brokers[led.id]
	c.mu.Unlock()
	if !ok || !known {
		return nil, leader{}, false
	}
	return c.link(addr), led, true
}

// partitions is a topic's partition count, from memory or from the cluster.
func (c *cluster) partitions(topic string) (int32, error) {
	c.mu.Lock()
	n, ok := c.counts[topic]
	c.mu.Unlock()
	if ok {
		return n, nil
	}
	m, err := c.metadata([]string{topic})
	if err != nil {
		return 0, err
	}
	for _, t := range m.Topics {
		if t.Name == topic && t.Err == sarama.ErrNoError {
			return int32(len(t.Partitions)), nil
		}
		if t.Name == topic {
			return 0, NewError(broker.OpMetadata, int16(t.Err), record.TopicPartition{Topic: topic}, t.Err)
		}
	}
	return 0, NewError(broker.OpMetadata, int16(sarama.ErrUnknownTopicOrPartition), record.TopicPartition{Topic: topic}, sarama.ErrUnknownTopicOrPartition)
}

// coordinator asks for the group's coordinator.
func (c *cluster) coordinator(ctx context.Context, group string) (*link, error) {
	answer, err := askAll(ctx, c, broker.OpFindCoordinator, func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
		return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 3, CoordinatorKey: group, CoordinatorType: sarama.CoordinatorGroup})
	})
	if err != nil {
		return nil, err
	}
	if answer.Err != sarama.ErrNoError {
		return nil, NewError(broker.OpFindCoordinator, int16(answer.Err), record.TopicPartition{}, answer.Err)
	}
	return c.link(answer.Coordinator.Addr()), nil
}

// backoff is exponential with full jitter from 10 ms, capped at a second.
func backoff(attempt int) time.Duration {
	ceiling := min(10*time.Millisecond<<min(attempt, 10), time.Second)
	return ceiling/2 + rand.N(ceiling/2+1)
}

// sleep waits, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Reach waits for the first answer of a broker. Its error is an *UnreachableError, which names the brokers and the last
// reason, or a Fatal *broker.Error if one answered with a refusal (58: user or password, 33: SASL mechanism).
func Reach(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	c := newCluster(cfg, "admin", cfg.requestTimeout(), nil)
	defer c.close()
	start := time.Now()
	var last error
	for attempt := 0; ; attempt++ {
		_, err := c.metadataUntil(ctx, nil)
		var be *broker.Error
		if err == nil || errors.As(err, &be) && be.Class == broker.Fatal {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = be.Cause // and not that the time was up, if there is a better reason
		}
		if !sleep(ctx, backoff(attempt)) {
			return &UnreachableError{Brokers: cfg.Brokers, Waited: time.Since(start), Cause: last}
		}
	}
}

// UnreachableError says that no broker answered in time.
type UnreachableError struct {
	Brokers []string
	Waited  time.Duration
	Cause   error
}

// Error is one sentence with the brokers and the last reason.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("kafka: no broker of %v answered within %s (%v): check the addresses and that the cluster is up", e.Brokers, e.Waited.Round(100*time.Millisecond), e.Cause)
}

// Unwrap gives the last reason.
func (e *UnreachableError) Unwrap() error { return e.Cause }
