package kafka

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
)

// Assignor decides for the group; its bytes are opaque here.
type Assignor interface {
	// Name is the protocol's name in the group.
	Name() string
	// UserData is sent with each join.
	UserData(owned []record.TopicPartition) []byte
	// Assign is asked on the leader.
	Assign(members []GroupMember, partitions map[string]int32) (map[string]GroupAssignment, error)
}

// GroupMember is a member as the leader sees it.
type GroupMember struct {
	ID         string
	UserData   []byte
	Owned      []record.TopicPartition
	Generation int32
}

// GroupAssignment is what the leader gives one member.
type GroupAssignment struct {
	Partitions []record.TopicPartition
	UserData   []byte
}

// GroupConfig is one member of a consumer group. Zero durations mean the defaults in brackets.
type GroupConfig struct {
	Config Config
	Group  string
	// InstanceID makes the member static: a restart within the session time-out gets its partitions back at once.
	InstanceID string
	Topics     []string
	// SessionTimeout [10 s], HeartbeatInterval [3 s], RebalanceTimeout [60 s], MetadataRefresh [30 s].
	SessionTimeout, HeartbeatInterval, RebalanceTimeout, MetadataRefresh time.Duration
	Assignor                                                             Assignor
}

// Group is one member of a consumer group: the shell around member.Machine. Its goroutine owns the machine; requests run
// on goroutines of their own and report back.
type Group struct {
	cfg     GroupConfig
	deliver func(broker.Event)
	machine *member.Machine
	// join has connections of its own: a pending JoinGroup blocks everything else on its connection.
	join, other *cluster
	in          chan func(now time.Time) []member.Effect
	ctx         context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup
	done        chan struct{}
	leaving     chan bool
	// synced is when the last generation began; it belongs to the member's goroutine.
	synced time.Time

	// where is the coordinator; the mutex protects it, since join and the other requests share it.
	mu    sync.Mutex
	where map[*cluster]*link
}

// eager is the heartbeat interval of a young generation. A cooperative rebalance has a second round, of which a member
// learns from a heartbeat: at the usual interval a partition that moves would be nobody's for seconds.
const eager = 200 * time.Millisecond

// NewGroup returns a member that has not joined. deliver gets the group's events on the member's goroutine and must not
// block.
func NewGroup(cfg GroupConfig, deliver func(broker.Event)) (*Group, error) {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.SessionTimeout, 10*time.Second)
	set(&cfg.HeartbeatInterval, 3*time.Second)
	set(&cfg.RebalanceTimeout, time.Minute)
	set(&cfg.MetadataRefresh, 30*time.Second)
	g := &Group{cfg: cfg, deliver: deliver, in: make(chan func(time.Time) []member.Effect, 64), done: make(chan struct{}), leaving: make(chan bool, 1), where: map[*cluster]*link{}}
	g.machine = member.New(cfg.SessionTimeout, func(op broker.Op, code int16) *broker.Error {
		var cause error
		if code > 0 {
			cause = sarama.KError(code)
		}
		return NewError(op, code, record.TopicPartition{}, cause)
	})
	g.join = newCluster(cfg.Config, "join", cfg.RebalanceTimeout+cfg.SessionTimeout+15*time.Second, nil)
	g.other = newCluster(cfg.Config, "group", 15*time.Second, deliver)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// Start joins.
func (g *Group) Start() {
	go g.run()
	g.submit(g.machine.Start)
	g.wg.Add(1)
	go g.refresh()
}

// submit hands a step of the machine to its goroutine.
func (g *Group) submit(step func(time.Time) []member.Effect) {
	select {
	case g.in <- step:
	case <-g.ctx.Done():
	}
}

// Released answers a broker.Revoking.
func (g *Group) Released(generation int32, _ []record.TopicPartition) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Released(now, generation) })
}

// Commit sends positions; exactly one broker.OffsetsCommitted with the token follows.
func (g *Group) Commit(token uint64, o broker.Offsets) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Commit(now, token, o) })
}

// Rejoin starts a rebalance.
func (g *Group) Rejoin(reason string) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Rejoin(now, reason) })
}

// Offsets reads committed positions, once no transaction has any pending; exactly one broker.OffsetsFetched follows.
func (g *Group) Offsets(token uint64, tps []record.TopicPartition) {
	g.goDo(func() {
		var offsets broker.Offsets
		err := retry(g.ctx, func() (err error) {
			to, err := g.coordinator(g.other)
			if err != nil {
				return err
			}
			if offsets, err = fetchOffsets(to, g.cfg.Group, tps); err != nil {
				g.lookAgain(g.other)
			}
			return err
		})
		if g.ctx.Err() != nil {
			return
		}
		e := broker.OffsetsFetched{Token: token, Offsets: offsets}
		if err != nil {
			e.Err = asError(broker.OpOffsetFetch, record.TopicPartition{}, err)
		}
		g.deliver(e)
	})
}

func (g *Group) goDo(f func()) {
	if g.ctx.Err() != nil {
		return
	}
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		f()
	}()
}

// run is the member's goroutine.
func (g *Group) run() {
	defer close(g.done)
	beat := time.NewTicker(min(g.cfg.HeartbeatInterval, eager))
	defer beat.Stop()
	var last time.Time
	for {
		select {
		case step := <-g.in:
			g.carryOut(step(time.Now()))
		case now := <-beat.C:
			if now.Sub(last) >= g.cfg.HeartbeatInterval || now.Sub(g.synced) < 2*g.cfg.HeartbeatInterval {
				last = now
				g.carryOut(g.machine.Tick(now))
			}
		case leave := <-g.leaving:
			id := g.machine.ID()
			g.carryOut(g.machine.Leave(time.Now()))
			if leave {
				g.leave(id)
			}
			return
		}
	}
}

func (g *Group) carryOut(effects []member.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case member.Deliver:
			if _, ok := e.Event.(broker.Assigned); ok {
				g.synced = time.Now()
			}
			g.deliver(e.Event)
		case member.Join:
			g.goDo(func() { g.sendJoin(e) })
		case member.Heartbeat:
			g.goDo(func() { g.sendHeartbeat(e) })
		case member.Commit:
			g.goDo(func() { g.sendCommit(e) })
		case member.Sync: // a JoinGroup's answer that leads to it carries the members: see sendJoin
		}
	}
}

// Close ends the membership, leaving the group first if asked to, and returns when its goroutines are gone or ctx ends.
func (g *Group) Close(ctx context.Context, leave bool) error {
	select {
	case g.leaving <- leave:
	default:
	}
	select {
	case <-g.done:
	case <-ctx.Done():
	}
	g.cancel()
	g.join.close()
	g.other.close()
	gone := make(chan struct{})
	go func() { g.wg.Wait(); close(gone) }()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// coordinator is the connection to the group's coordinator in one role, looked up once and again after each failure.
func (g *Group) coordinator(c *cluster) (*link, error) {
	g.mu.Lock()
	to := g.where[c]
	g.mu.Unlock()
	if to != nil {
		return to, nil
	}
	to, err := c.coordinator(g.cfg.Group)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.where[c] = to
	g.mu.Unlock()
	return to, nil
}

func (g *Group) lookAgain(c *cluster) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.where, c)
}

func (g *Group) instance() *string {
	if g.cfg.InstanceID == "" {
		return nil
	}
	return &g.cfg.InstanceID
}

// ask makes one request to the coordinator and gives its code; member.Transport if there was no answer. A code that says
// that the coordinator is elsewhere, or no answer, has it looked up again.
func ask[T any](g *Group, c *cluster, request func(*sarama.Broker) (T, error), code func(T) sarama.KError) (answer T, result int16) {
	to, err := g.coordinator(c)
	if err == nil {
		answer, err = call(to, request)
	}
	if err != nil {
		g.lookAgain(c)
		if be := asError(broker.OpFindCoordinator, record.TopicPartition{}, err); be.Class == broker.Fatal {
			return answer, be.Code
		}
		c.note(err)
		return answer, member.Transport
	}
	c.note(nil)
	result = int16(code(answer))
	if result == 15 || result == 16 {
		g.lookAgain(c)
	}
	return answer, result
}

func (g *Group) sendHeartbeat(e member.Heartbeat) {
	_, code := ask(g, g.other, func(b *sarama.Broker) (*sarama.HeartbeatResponse, error) {
		return b.Heartbeat(&sarama.HeartbeatRequest{Version: 4, GroupId: g.cfg.Group, GenerationId: e.Generation, MemberId: e.MemberID, GroupInstanceId: g.instance()})
	}, func(r *sarama.HeartbeatResponse) sarama.KError { return r.Err })
	g.submit(func(now time.Time) []member.Effect { return g.machine.Beat(now, e.Generation, code) })
}

func (g *Group) sendCommit(e member.Commit) {
	if e.Attempt > 0 && !sleep(g.ctx, backoff(e.Attempt)) {
		return
	}
	r := &sarama.OffsetCommitRequest{Version: 8, ConsumerGroup: g.cfg.Group, ConsumerGroupGeneration: e.Generation, ConsumerID: e.MemberID, GroupInstanceId: g.instance()}
	for tp, o := range e.Offsets {
		r.AddBlockWithLeaderEpoch(tp.Topic, tp.Partition, o.At, -1, 0, o.Metadata)
	}
	_, code := ask(g, g.other, func(b *sarama.Broker) (*sarama.OffsetCommitResponse, error) { return b.CommitOffset(r) }, worst)
	g.submit(func(now time.Time) []member.Effect { return g.machine.Committed(now, e.Token, code) })
}

// worst is the code that decides about a commit as a whole: a fatal one before a loss before a retry.
func worst(r *sarama.OffsetCommitResponse) (w sarama.KError) {
	rank := map[broker.Class]int{broker.Ignore: 0, broker.Retry: 1, broker.Abort: 2, broker.Migrated: 3, broker.Fatal: 4}
	for _, partitions := range r.Errors {
		for _, code := range partitions {
			if rank[Classify(broker.OpOffsetCommit, int16(code))] > rank[Classify(broker.OpOffsetCommit, int16(w))] {
				w = code
			}
		}
	}
	return w
}

func (g *Group) leave(id string) {
	if id == "" {
		return
	}
	me := sarama.MemberIdentity{MemberId: id, GroupInstanceId: g.instance()}
	_, _ = ask(g, g.other, func(b *sarama.Broker) (*sarama.LeaveGroupResponse, error) {
		return b.LeaveGroup(&sarama.LeaveGroupRequest{Version: 4, GroupId: g.cfg.Group, Members: []sarama.MemberIdentity{me}})
	}, func(r *sarama.LeaveGroupResponse) sarama.KError { return r.Err })
}

// refresh looks for partitions that were added to the subscribed topics and has the group rebalance if there are any.
func (g *Group) refresh() {
	defer g.wg.Done()
	var last map[string]int32
	for sleep(g.ctx, g.cfg.MetadataRefresh) {
		counts, err := g.counts(g.other)
		if err != nil {
			continue
		}
		if last != nil && !maps.Equal(last, counts) {
			g.Rejoin("partitions were added")
		}
		last = counts
	}
}

func (g *Group) counts(c *cluster) (map[string]int32, error) {
	m, err := c.metadata(g.cfg.Topics)
	if err != nil {
		return nil, err
	}
	counts := map[string]int32{}
	for _, t := range m.Topics {
		if t.Err == sarama.ErrNoError {
			counts[t.Name] = int32(len(t.Partitions))
		}
	}
	return counts, nil
}

func byTopic(tps []record.TopicPartition) map[string][]int32 {
	m := map[string][]int32{}
	for _, tp := range tps {
		m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	}
	for _, p := range m {
		slices.Sort(p)
	}
	return m
}
