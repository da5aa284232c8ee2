package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
// The mutex protects the open connection; requests are made without it.
type link struct {
	cfg         Config
	addr        string
	readTimeout time.Duration
	mu          sync.Mutex
	broker      *sarama.Broker
	dialer      *keepingDialer
	closed      bool
}

var errClosed = errors.New("kafka: closed")

func (l *link) open() (*sarama.Broker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.broker != nil {
		return l.broker, nil
	}
	d := newKeepingDialer(l.cfg.dialTimeout())
	b := sarama.NewBroker(l.addr)
	if err := b.Open(l.cfg.sarama(d, l.readTimeout)); err != nil {
		return nil, err
	}
	if ok, err := b.Connected(); !ok {
		d.cut()
		return nil, fmt.Errorf("connect to %s: %w", l.addr, err)
	}
	l.broker, l.dialer = b, d
	return b, nil
}

// drop cuts b if it is still the open connection.
func (l *link) drop(b *sarama.Broker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broker == b && b != nil {
		l.dialer.cut()
		_ = b.Close()
		l.broker, l.dialer = nil, nil
	}
}

func (l *link) close() {
	l.mu.Lock()
	b := l.broker
	l.closed = true
	l.mu.Unlock()
	l.drop(b)
}

// call makes one request; a transport error cuts the connection.
func call[T any](l *link, request func(*sarama.Broker) (T, error)) (T, error) {
	b, err := l.open()
	if err != nil {
		var zero T
		return zero, err
	}
	answer, err := request(b)
	if err != nil && isTransport(err) {
		l.drop(b)
	}
	return answer, err
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

func newCluster(cfg Config, role string, readTimeout time.Duration, deliver func(broker.Event)) *cluster {
	if deliver == nil {
		deliver = func(broker.Event) {}
	}
	return &cluster{cfg: cfg, role: role, readTimeout: readTimeout, deliver: deliver, links: map[string]*link{},
		brokers: map[int32]string{}, leaders: map[record.TopicPartition]leader{}, counts: map[string]int32{}}
}

func (c *cluster) link(addr string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[addr]
	if l == nil {
		l = &link{cfg: c.cfg, addr: addr, readTimeout: c.readTimeout, closed: c.closed}
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

// note publishes that the role lost its brokers or found one again, once each.
func (c *cluster) note(err error) {
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

// metadata asks one broker after the other until one answers. topics nil means none, not all.
func (c *cluster) metadata(topics []string) (*sarama.MetadataResponse, error) {
	var last error
	for _, addr := range c.addresses() {
		answer, err := call(c.link(addr), func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
			r := sarama.NewMetadataRequest(version, topics)
			r.Topics = topics
			if r.Topics == nil {
				r.Topics = []string{}
			}
			return b.GetMetadata(r)
		})
		if err == nil {
			c.learn(answer)
			c.note(nil)
			return answer, nil
		}
		if errors.Is(err, errClosed) {
			return nil, err
		}
		last = err
	}
	if last == nil {
		last = errors.New("no broker is named")
	}
	c.note(last)
	return nil, NewError(broker.OpMetadata, int16(transportCode), record.TopicPartition{}, last)
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
func (c *cluster) coordinator(group string) (*link, error) {
	var last error
	for _, addr := range c.addresses() {
		answer, err := call(c.link(addr), func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
			return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 3, CoordinatorKey: group, CoordinatorType: sarama.CoordinatorGroup})
		})
		if err == nil && answer.Err != sarama.ErrNoError {
			return nil, NewError(broker.OpFindCoordinator, int16(answer.Err), record.TopicPartition{}, answer.Err)
		}
		if err == nil {
			return c.link(answer.Coordinator.Addr()), nil
		}
		last = err
	}
	return nil, NewError(broker.OpFindCoordinator, transportCode, record.TopicPartition{}, last)
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

// Reach waits for the first answer of a broker. Its error names the brokers and the last reason.
func Reach(ctx context.Context, cfg Config) error {
	c := newCluster(cfg, "admin", cfg.requestTimeout(), nil)
	defer c.close()
	start := time.Now()
	for attempt := 0; ; attempt++ {
		_, err := c.metadata(nil)
		if err == nil {
			return nil
		}
		if !sleep(ctx, backoff(attempt)) {
			var be *broker.Error
			if errors.As(err, &be) {
				err = be.Cause
			}
			return &UnreachableError{Brokers: cfg.Brokers, Waited: time.Since(start), Cause: err}
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
