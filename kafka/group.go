package kafka

import (
	"context"
	"errors"
	"fmt"
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

// StaleAssignor is an Assignor that can tell an assignment that was made without this member's present user data. A real
// broker hands a restarted static member its predecessor's assignment and tells no leader, so what changed (the query
// endpoint, the topics) would stay unknown. An Assignor that cannot tell has each static member that does not lead rejoin once
// after it came up; nothing is revoked by that.
type StaleAssignor interface {
	Assignor
	// Stale is asked with what an assignment gives the member, in order, and with its user data.
	Stale(memberID string, partitions []record.TopicPartition, assignment []byte) bool
}

// GroupMember is a member as the leader sees it.
type GroupMember struct {
	ID string
	// InstanceID is empty for a dynamic member.
	InstanceID string
	Topics     []string
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
	// in holds steps of the machine; it is unbounded, so that submitting never blocks.
	in      *broker.Inbox
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	done    chan struct{}
	leaving chan bool
	// synced, joined and cutJoin belong to the member's goroutine: when the last generation began, the answer that the
	// next sync is about, and how to end the join that is under way.
	synced  time.Time
	joined  *sarama.JoinGroupResponse
	cutJoin context.CancelFunc

	// mu protects what the requests' goroutines share: the coordinator by role, and whether Start and Close were called.
	// A goroutine that owned them would cost a round trip per request.
	mu              sync.Mutex
	where           map[*cluster]*link
	started, closed bool
}

type step = func(now time.Time) []member.Effect

// eager is the heartbeat interval of a young generation. A cooperative rebalance has a second round, of which a member
// learns from a heartbeat: at the usual interval a partition that moves would be nobody's for seconds.
const eager = 200 * time.Millisecond

// NewGroup returns a member that has not joined; it starts nothing. deliver gets the group's events on the member's
// goroutine (broker.ConnectionChanged also on others) and must not block. Its error says what of cfg is missing.
func NewGroup(cfg GroupConfig, deliver func(broker.Event)) (*Group, error) {
	if cfg.Group == "" || cfg.Assignor == nil || len(cfg.Topics) == 0 {
		return nil, errors.New("kafka: a group member needs a group id, an assignor and at least one topic: set GroupConfig.Group, Assignor and Topics")
	}
	if err := cfg.Config.validate(); err != nil {
		return nil, err
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.SessionTimeout, 10*time.Second)
	set(&cfg.HeartbeatInterval, 3*time.Second)
	set(&cfg.RebalanceTimeout, time.Minute)
	set(&cfg.MetadataRefresh, 30*time.Second)
	g := &Group{cfg: cfg, deliver: deliver, in: broker.NewInbox(), done: make(chan struct{}), leaving: make(chan bool, 1), where: map[*cluster]*link{}}
	g.machine = member.New(member.Config{Session: cfg.SessionTimeout, Static: cfg.InstanceID != "", Error: groupErrors(cfg.SessionTimeout)})
	g.join = newCluster(cfg.Config, "join", cfg.RebalanceTimeout+cfg.SessionTimeout+15*time.Second, nil)
	// Below the session time-out, so that a heartbeat that hangs on a dead connection is tried again on another while the
	// session lasts; above the 5 s that a broker gives a commit before it answers 7.
	g.other = newCluster(cfg.Config, "group", min(15*time.Second, max(6*time.Second, cfg.SessionTimeout*2/3)), deliver)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// groupErrors makes the errors of a group. What a broker says of a session timeout that it does not take names neither the
// timeout nor what it takes.
func groupErrors(session time.Duration) func(op broker.Op, code int16) *broker.Error {
	return func(op broker.Op, code int16) *broker.Error {
		var cause error
		switch {
		case sarama.KError(code) == sarama.ErrInvalidSessionTimeout:
			cause = fmt.Errorf("%w: it is %s, and the brokers take group.min.session.timeout.ms to group.max.session.timeout.ms, which are 6 s and 30 min unless somebody has set them",
				sarama.KError(code), session)
		case code > 0:
			cause = sarama.KError(code)
		}
		return NewError(op, code, record.TopicPartition{}, cause)
	}
}

// Start joins, as soon as the cluster answers. Further calls, and calls after Close, do nothing.
func (g *Group) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || g.closed {
		return
	}
	g.started = true
	g.wg.Add(1)
	go g.run()
	go g.refresh()
}

// submit hands a step of the machine to its goroutine.
func (g *Group) submit(s step) { g.in.Put(s) }

// Released answers a broker.Revoking.
func (g *Group) Released(generation int32, _ []record.TopicPartition) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Released(now, generation) })
}

// Commit sends positions; exactly one broker.OffsetsCommitted with the token follows, at the latest while Close runs.
// Its Err is nil; Abort if the partitions are not this member's any more; Migrated if the member was thrown out or is
// closed; Fatal (12 metadata too large, 29 and 30 authorisation) if it cannot work.
func (g *Group) Commit(token uint64, o broker.Offsets) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Commit(now, token, o) })
}

// Rejoin starts a rebalance, or another one after the one that is under way.
func (g *Group) Rejoin(reason string) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Rejoin(now, reason) })
}

// CommittedOffsets reads committed positions; exactly one broker.OffsetsFetched follows, at the latest while Close runs.
// With stable (KIP-447) it comes once no transaction has any of them pending (88 UNSTABLE_OFFSET_COMMIT is asked again,
// for as long as the transaction lasts): where a new owner starts. Without, the positions before a pending transaction
// come at once: who has to learn from their metadata whose transaction that is cannot wait for its end.
func (g *Group) CommittedOffsets(token uint64, tps []record.TopicPartition, stable bool) {
	g.submit(func(now time.Time) []member.Effect { return g.machine.Offsets(now, token, tps, stable) })
}

func (g *Group) sendFetch(e member.Fetch) {
	var offsets broker.Offsets
	err := retry(g.ctx, func() (err error) {
		to, err := g.coordinator(g.ctx, g.other)
		if err != nil {
			return err
		}
		if offsets, err = fetchOffsets(g.ctx, to, g.cfg.Group, e.Partitions, e.Stable); err != nil && asError(broker.OpOffsetFetch, record.TopicPartition{}, err).Code != unstable {
			g.lookAgain(g.other)
		}
		return err
	})
	var failed *broker.Error
	if err != nil {
		failed = asError(broker.OpOffsetFetch, record.TopicPartition{}, err)
	}
	g.submit(func(now time.Time) []member.Effect { return g.machine.Fetched(now, e.Token, offsets, failed) })
}

// unstable is UNSTABLE_OFFSET_COMMIT: the right coordinator says that a transaction is pending.
const unstable int16 = 88

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
	var steps []broker.Event
	for {
		select {
		case <-g.in.Wake():
			steps = g.takeSteps(steps[:0])
		case now := <-beat.C:
			if now.Sub(last) >= g.cfg.HeartbeatInterval || now.Sub(g.synced) < 2*g.cfg.HeartbeatInterval {
				last = now
				g.carryOut(g.machine.Tick(now))
			}
		case leave := <-g.leaving:
			g.end(leave)
			return
		}
	}
}

func (g *Group) takeSteps(buf []broker.Event) []broker.Event {
	buf = g.in.Poll(buf)
	for _, s := range buf {
		g.carryOut(s.(step)(time.Now()))
	}
	return buf
}

// end answers what was submitted before Close, then leaves. The join that is under way is cut, so that it does not come
// back after the leaving.
func (g *Group) end(leave bool) {
	g.takeSteps(nil)
	id := g.machine.ID()
	g.carryOut(g.machine.Leave(time.Now()))
	if g.cutJoin != nil {
		g.cutJoin()
	}
	if leave {
		g.leave(id)
	}
	g.takeSteps(nil)
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
			g.startJoin(e)
		case member.Sync:
			joined := g.joined
			g.goDo(func() { g.sendSync(joined, e.Leader) })
		case member.Heartbeat:
			g.goDo(func() { g.sendHeartbeat(e) })
		case member.Commit:
			g.goDo(func() { g.sendCommit(e) })
		case member.Fetch:
			g.goDo(func() { g.sendFetch(e) })
		}
	}
}

// Close ends the membership, leaving the group first if asked to (by member id, and instance id if there is one), and
// returns when its goroutines are gone, or with the cause of ctx when that ends first. What was submitted before is
// answered. A member that was never started has nothing to end.
func (g *Group) Close(ctx context.Context, leave bool) error {
	g.mu.Lock()
	g.closed = true
	started := g.started
	g.mu.Unlock()
	if started {
		select {
		case g.leaving <- leave:
		default:
		}
		select {
		case <-g.done:
		case <-ctx.Done():
		}
	}
	g.cancel()
	g.join.close()
	g.other.close()
	gone := make(chan struct{})
	go func() {
		if started {
			<-g.done
		}
		g.wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// coordinator is the connection to the group's coordinator in one role, looked up once and again after each failure.
func (g *Group) coordinator(ctx context.Context, c *cluster) (*link, error) {
	g.mu.Lock()
	to := g.where[c]
	g.mu.Unlock()
	if to != nil {
		return to, nil
	}
	to, err := c.coordinator(ctx, g.cfg.Group)
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
// that the coordinator is elsewhere, or no answer, has it looked up again: at once, since that asks every broker and so
// tells an outage from a coordinator that died alone.
func ask[T any](ctx context.Context, g *Group, c *cluster, request func(*sarama.Broker) (T, error), code func(T) sarama.KError) (answer T, result int16) {
	to, err := g.coordinator(ctx, c)
	if err == nil {
		if answer, err = callUntil(ctx, to, request); err != nil {
			g.lookAgain(c)
			_, _ = g.coordinator(ctx, c)
		}
	}
	if err != nil {
		if be := asError(broker.OpFindCoordinator, record.TopicPartition{}, err); be.Class == broker.Fatal {
			return answer, be.Code
		}
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
	_, code := ask(g.ctx, g, g.other, func(b *sarama.Broker) (*sarama.HeartbeatResponse, error) {
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
	_, code := ask(g.ctx, g, g.other, func(b *sarama.Broker) (*sarama.OffsetCommitResponse, error) { return b.CommitOffset(r) }, worst)
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
	for attempt := range leaveAttempts {
		_, code := ask(g.ctx, g, g.other, func(b *sarama.Broker) (*sarama.LeaveGroupResponse, error) {
			return b.LeaveGroup(&sarama.LeaveGroupRequest{Version: 4, GroupId: g.cfg.Group, Members: []sarama.MemberIdentity{me}})
		}, func(r *sarama.LeaveGroupResponse) sarama.KError { return r.Err })
		if Classify(broker.OpLeaveGroup, code) != broker.Retry || !sleep(g.ctx, backoff(attempt)) {
			return
		}
	}
}

// leaveAttempts bounds a leaving that the coordinator does not answer: the session time-out does the rest.
const leaveAttempts = 3

// refresh starts the member and then looks for partitions that were added to the subscribed topics; the group rebalances
// if there are any. The counts are taken before the join, so that no growth falls between an assignment and the first look.
func (g *Group) refresh() {
	defer g.wg.Done()
	known := map[string]int32{}
	// A refusal is for the join to meet and to tell.
	if err := retry(g.ctx, func() (err error) { known, err = g.counts(g.other); return err }); g.ctx.Err() != nil {
		return
	} else if err != nil {
		known = map[string]int32{}
	}
	g.submit(g.machine.Start)
	for sleep(g.ctx, g.cfg.MetadataRefresh) {
		counts, err := g.counts(g.other)
		if err == nil && learnCounts(known, counts) {
			g.Rejoin("the partition count of a topic changed")
		}
	}
}

// learnCounts says whether a topic's count differs from the known one. A topic that is not in the answer is having a bad
// moment, or is gone; neither is a reason to rebalance.
func learnCounts(known, counts map[string]int32) (changed bool) {
	for topic, n := range counts {
		changed = changed || known[topic] != n
		known[topic] = n
	}
	return changed
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
