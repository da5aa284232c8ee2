package kafka_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

// groupCluster is an embedded cluster with one topic, t.
func groupCluster(t *testing.T, partitions int32) *embedded.Cluster {
	c, err := embedded.Start(kfake.SeedTopics(partitions, "t"), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// planner is package assign with the address that a member tells the others.
type planner struct {
	endpoint string
	round    atomic.Uint64
}

func (*planner) Name() string { return "millrace" }

func (p *planner) UserData([]record.TopicPartition) []byte {
	return assign.EncodeMember(assign.Member{ProcessID: p.endpoint, Endpoint: p.endpoint}, p.round.Add(1))
}

func (*planner) Assign(members []kafka.GroupMember, partitions map[string]int32) (map[string]kafka.GroupAssignment, error) {
	in := assign.Input{Sources: map[int32][]string{0: {"t"}}, Partitions: partitions}
	for _, m := range members {
		member, err := assign.DecodeSubscription(m.ID, m.UserData)
		if err != nil {
			return nil, err
		}
		member.Owned, member.Generation = m.Owned, m.Generation
		in.Members = append(in.Members, member)
	}
	plan, err := assign.Make(in)
	if err != nil {
		return nil, err
	}
	out := map[string]kafka.GroupAssignment{}
	for id, a := range plan.Assignments {
		out[id] = kafka.GroupAssignment{Partitions: a.Partitions, UserData: assign.EncodeAssignment(plan, id)}
	}
	return out, nil
}

// peer is a member with the books that its events make. Revoked partitions are released at once unless keep is set.
type peer struct {
	*kafka.Group
	t       *testing.T
	inbox   *broker.Inbox
	keep    bool
	seen    []broker.Event
	last    broker.Assigned
	owned   []record.TopicPartition
	added   map[record.TopicPartition]int
	revoked map[record.TopicPartition]int
	lost    int
	commits map[uint64][]*broker.Error
	fetched map[uint64]broker.OffsetsFetched
	failed  *broker.Error
}

func newPeer(t *testing.T, addrs []string, endpoint string, change func(*kafka.GroupConfig)) *peer {
	p := &peer{t: t, inbox: broker.NewInbox(), added: map[record.TopicPartition]int{}, revoked: map[record.TopicPartition]int{}, commits: map[uint64][]*broker.Error{}, fetched: map[uint64]broker.OffsetsFetched{}}
	cfg := kafka.GroupConfig{
		Config: kafka.Config{Brokers: addrs}, Group: "g", Topics: []string{"t"}, Assignor: &planner{endpoint: endpoint},
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 20 * time.Millisecond, RebalanceTimeout: 5 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	g, err := kafka.NewGroup(cfg, p.inbox.Put)
	if err != nil {
		t.Fatal(err)
	}
	p.Group = g
	t.Cleanup(func() { p.close(false) })
	g.Start()
	return p
}

func (p *peer) close(leave bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Close(ctx, leave); err != nil {
		p.t.Error("close:", err)
	}
}

// take books what has come in.
func (p *peer) take() {
	for _, e := range p.inbox.Poll(nil) {
		p.seen = append(p.seen, e)
		switch e := e.(type) {
		case broker.Assigned:
			p.last, p.owned = e, e.Partitions
			for _, tp := range e.Added {
				p.added[tp]++
			}
		case broker.Revoking:
			for _, tp := range e.Partitions {
				p.revoked[tp]++
			}
			if !p.keep {
				p.Released(e.Generation, e.Partitions)
			}
		case broker.Lost:
			p.lost++
			p.owned = nil
		case broker.OffsetsCommitted:
			p.commits[e.Token] = append(p.commits[e.Token], e.Err)
		case broker.OffsetsFetched:
			p.fetched[e.Token] = e
		case broker.GroupFailed:
			p.failed = e.Err
		}
	}
}

// await books the events of all peers until something is true.
func await(t *testing.T, what string, holds func() bool, peers ...*peer) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	// One select for any number of inboxes: their wake channels feed one.
	wake, stop := make(chan struct{}, 1), make(chan struct{})
	var forwarding sync.WaitGroup
	defer forwarding.Wait() // one that is still there would take a wake from the next await
	defer close(stop)
	for _, p := range peers {
		forwarding.Go(func() {
			for {
				select {
				case <-p.inbox.Wake():
					select {
					case wake <- struct{}{}:
					default:
					}
				case <-stop:
					return
				}
			}
		})
	}
	for {
		for _, p := range peers {
			p.take()
		}
		if holds() {
			return
		}
		select {
		case <-wake:
		case <-deadline.C:
			for i, p := range peers {
				t.Logf("peer %d saw %+v", i, p.seen)
			}
			t.Fatal("never: ", what)
		}
	}
}

func owns(n int, peers ...*peer) func() bool {
	return func() bool {
		return !slices.ContainsFunc(peers, func(p *peer) bool { return len(p.owned) != n })
	}
}

func tps(partitions ...int32) (out []record.TopicPartition) {
	for _, p := range partitions {
		out = append(out, record.TopicPartition{Topic: "t", Partition: p})
	}
	return out
}

func TestGroupOfOneCommitsAndReadsBack(t *testing.T) {
	a := newPeer(t, groupCluster(t, 3).Addrs(), "a", nil)
	await(t, "all are assigned", owns(3, a), a)
	a.Commit(7, broker.Offsets{tps(1)[0]: {At: 42, Metadata: "m"}})
	await(t, "the commit is answered", func() bool { return len(a.commits[7]) == 1 }, a)
	if err := a.commits[7][0]; err != nil {
		t.Fatal(err)
	}
	a.CommittedOffsets(8, tps(0, 1), true)
	await(t, "the offsets are there", func() bool { return a.fetched[8].Offsets != nil }, a)
	want := broker.Offsets{tps(0)[0]: {At: broker.None}, tps(1)[0]: {At: 42, Metadata: "m"}}
	if diff := cmp.Diff(want, a.fetched[8].Offsets); diff != "" {
		t.Fatal(diff)
	}
}

func TestGroupKeepsWhatStays(t *testing.T) {
	addrs := groupCluster(t, 4).Addrs()
	long := func(c *kafka.GroupConfig) { c.SessionTimeout = 2 * patience } // who leaves is not waited for
	a := newPeer(t, addrs, "a", long)
	await(t, "a has all", owns(4, a), a)
	b := newPeer(t, addrs, "b", long)
	await(t, "both have half", owns(2, a, b), a, b)
	for _, tp := range a.owned {
		if a.added[tp] != 1 || a.revoked[tp] != 0 {
			t.Errorf("%s stayed and was added %d times, revoked %d times", tp, a.added[tp], a.revoked[tp])
		}
	}
	all := slices.Concat(a.owned, b.owned)
	slices.SortFunc(all, record.TopicPartition.Compare)
	if !slices.Equal(all, tps(0, 1, 2, 3)) {
		t.Fatal("not each partition once:", all)
	}
	b.close(true)
	await(t, "a has all again", owns(4, a), a)
	if a.lost+b.lost > 0 {
		t.Error("somebody lost partitions")
	}
}

func TestGroupTakesOverFromTheDead(t *testing.T) {
	addrs := groupCluster(t, 4).Addrs()
	short := func(c *kafka.GroupConfig) { c.SessionTimeout = 500 * time.Millisecond }
	a := newPeer(t, addrs, "a", short)
	b := newPeer(t, addrs, "b", short)
	await(t, "both have half", owns(2, a, b), a, b)
	b.close(false) // it just stops: nobody is told
	await(t, "a has all", owns(4, a), a)
}

func endpoints(t *testing.T, a broker.Assigned) []string {
	owners, err := assign.DecodeOwners(a.UserData)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, o := range owners {
		set[o.Endpoint] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// A restarted static member gets its partitions at once, nobody else is interrupted, and the group learns its new address.
func TestGroupStaticRestart(t *testing.T) {
	addrs := groupCluster(t, 4).Addrs()
	static := func(id string) func(*kafka.GroupConfig) {
		return func(c *kafka.GroupConfig) { c.InstanceID = id }
	}
	a := newPeer(t, addrs, "a", static("1"))
	b := newPeer(t, addrs, "b", static("2"))
	await(t, "both have half", owns(2, a, b), a, b)
	had := slices.Clone(b.owned)
	b.close(false)
	again := newPeer(t, addrs, "b2", static("2"))
	await(t, "b is back and all know where", func() bool {
		return len(again.owned) == 2 && slices.Equal(endpoints(t, a.last), []string{"a", "b2"}) && slices.Equal(endpoints(t, again.last), []string{"a", "b2"})
	}, a, again)
	if !slices.Equal(again.owned, had) {
		t.Error("b had", had, "and has", again.owned)
	}
	for _, tp := range a.owned {
		if a.added[tp] != 1 || a.revoked[tp] != 0 {
			t.Errorf("%s was interrupted", tp)
		}
	}
}

// A restarted static leader is told that its dead predecessor leads. The next rebalance puts that right.
func TestGroupStaticLeaderRestart(t *testing.T) {
	addrs := groupCluster(t, 2).Addrs()
	static := func(c *kafka.GroupConfig) { c.InstanceID = "1" }
	a := newPeer(t, addrs, "a", static)
	await(t, "a has all", owns(2, a), a)
	a.close(false)
	again := newPeer(t, addrs, "a2", static)
	await(t, "it leads with its new address", func() bool {
		return len(again.owned) == 2 && slices.Equal(endpoints(t, again.last), []string{"a2"})
	}, again)
}

func TestGroupUnknownMemberIsLostAndJoinsAnew(t *testing.T) {
	c := groupCluster(t, 2)
	a := newPeer(t, c.Addrs(), "a", nil)
	await(t, "a has all", owns(2, a), a)
	id := a.last.MemberID
	c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
	await(t, "lost", func() bool { return a.lost == 1 }, a)
	// The broker still counts the old member, whose session has to run out unless it is told; leave for it.
	leaveFor(t, c.Addrs(), id)
	await(t, "a has all again", owns(2, a), a)
	if a.last.MemberID == id {
		t.Error("it came back under the id that the group does not know")
	}
}

func leaveFor(t *testing.T, addrs []string, id string) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_3_1_0
	client, err := sarama.NewClient(addrs, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b, err := client.Coordinator("g")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.LeaveGroup(&sarama.LeaveGroupRequest{Version: 4, GroupId: "g", Members: []sarama.MemberIdentity{{MemberId: id}}}); err != nil {
		t.Fatal(err)
	}
}

func TestGroupFollowsItsCoordinator(t *testing.T) {
	c := groupCluster(t, 2)
	a := newPeer(t, c.Addrs(), "a", nil)
	await(t, "a has all", owns(2, a), a)
	before := a.last
	was := c.Kfake().CoordinatorFor("g")
	for range 100 {
		if c.Kfake().RehashCoordinators(); c.Kfake().CoordinatorFor("g") != was {
			break
		}
	}
	if c.Kfake().CoordinatorFor("g") == was {
		t.Fatal("the coordinator did not move")
	}
	a.Commit(1, broker.Offsets{tps(0)[0]: {At: 1}})
	await(t, "the commit is answered", func() bool { return len(a.commits[1]) == 1 }, a)
	if err := a.commits[1][0]; err != nil || a.lost > 0 || a.last.Generation != before.Generation {
		t.Fatal(err, a.lost, a.last, before)
	}
}

func TestGroupCommitsThroughARebalance(t *testing.T) {
	addrs := groupCluster(t, 4).Addrs()
	a := newPeer(t, addrs, "a", nil)
	await(t, "a has all", owns(4, a), a)
	a.keep = true
	b := newPeer(t, addrs, "b", nil)
	token := uint64(0)
	commit := func() { token++; a.Commit(token, broker.Offsets{tps(0)[0]: {At: int64(token)}}) }
	commit()
	await(t, "a is to give up half, and commits meanwhile", func() bool {
		if len(a.commits[token]) > 0 {
			commit()
		}
		return len(a.revoked) == 2
	}, a, b)
	final := broker.Offsets{}
	for tp := range a.revoked {
		final[tp] = broker.Offset{At: 99}
	}
	a.Commit(1000, final)
	await(t, "the revoked partitions are committed", func() bool { return len(a.commits[1000]) == 1 }, a, b)
	a.Released(a.last.Generation, nil)
	a.keep = false
	await(t, "b has half", owns(2, b), a, b)
	await(t, "every commit is answered", func() bool { return len(a.commits) == int(token)+1 }, a, b)
	for token, answers := range a.commits {
		if len(answers) != 1 || answers[0] != nil {
			t.Errorf("commit %d: %v", token, answers)
		}
	}
	b.CommittedOffsets(1, slices.Collect(maps.Keys(final)), true)
	await(t, "b reads what a committed", func() bool { return b.fetched[1].Offsets != nil }, b)
	if diff := cmp.Diff(final, b.fetched[1].Offsets); diff != "" {
		t.Fatal(diff)
	}
}

// 27 says that the new generation is not synced; 22 that there is a newer one; 16 that the coordinator is elsewhere.
func TestGroupCommitAnswers(t *testing.T) {
	for _, c := range []struct {
		err  *kerr.Error
		want broker.Class
		lost int
	}{
		{kerr.RebalanceInProgress, 0, 0},
		{kerr.NotCoordinator, 0, 0},
		{kerr.CoordinatorLoadInProgress, 0, 0},
		{kerr.IllegalGeneration, broker.Migrated, 1},
		{kerr.UnknownMemberID, broker.Migrated, 1},
		{kerr.FencedInstanceID, broker.Migrated, 1},
		{kerr.GroupAuthorizationFailed, broker.Fatal, 0},
		{kerr.OffsetMetadataTooLarge, broker.Fatal, 0},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			cluster := groupCluster(t, 1)
			a := newPeer(t, cluster.Addrs(), "a", nil)
			await(t, "a has all", owns(1, a), a)
			cluster.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: c.err})
			a.Commit(1, broker.Offsets{tps(0)[0]: {At: 1}})
			await(t, "answered", func() bool { return len(a.commits[1]) == 1 && a.lost == c.lost }, a)
			var got broker.Class
			if err := a.commits[1][0]; err != nil {
				got = err.Class
			}
			if got != c.want {
				t.Fatal("got", got, "want", c.want)
			}
		})
	}
}

func TestGroupForcedRejoinInterruptsNothing(t *testing.T) {
	addrs := groupCluster(t, 4).Addrs()
	a, b := newPeer(t, addrs, "a", nil), newPeer(t, addrs, "b", nil)
	await(t, "both have half", owns(2, a, b), a, b)
	for _, p := range []*peer{a, b} { // one of them leads, the other follows
		gen := p.last.Generation
		p.Rejoin("a probe")
		await(t, "a new generation", func() bool {
			return a.last.Generation > gen && b.last.Generation > gen && len(a.owned) == 2 && len(b.owned) == 2
		}, a, b)
	}
	for _, p := range []*peer{a, b} {
		for _, tp := range p.owned {
			if p.added[tp] != 1 {
				t.Errorf("%s was added %d times", tp, p.added[tp])
			}
		}
	}
}

// H5: partitions that are added to a source topic are taken up without a restart.
func TestGroupTakesUpAddedPartitions(t *testing.T) {
	c := groupCluster(t, 2)
	a := newPeer(t, c.Addrs(), "a", func(c *kafka.GroupConfig) { c.MetadataRefresh = 20 * time.Millisecond })
	await(t, "a has both", owns(2, a), a)
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_3_1_0
	admin, err := sarama.NewClusterAdmin(c.Addrs(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreatePartitions("t", 5, nil, false); err != nil {
		t.Fatal(err)
	}
	await(t, "a has five", owns(5, a), a)
	if a.lost > 0 || len(a.revoked) > 0 {
		t.Error("growth interrupted what was there")
	}
}

// Two processes with one instance id fence each other; one of them has to give in.
func TestGroupFencedTwiceFails(t *testing.T) {
	addrs := groupCluster(t, 2).Addrs()
	same := func(c *kafka.GroupConfig) { c.InstanceID = "same" }
	a := newPeer(t, addrs, "a", same)
	await(t, "a has all", owns(2, a), a)
	b := newPeer(t, addrs, "b", same)
	await(t, "one fails and the other has all", func() bool {
		return (a.failed != nil && len(b.owned) == 2) || (b.failed != nil && len(a.owned) == 2)
	}, a, b)
	if a.failed != nil && b.failed != nil {
		t.Error("both failed")
	}
}

func TestGroupRefusedIsFatal(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout} {
		t.Run(err.Message, func(t *testing.T) {
			c := groupCluster(t, 1)
			c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: err, Count: -1})
			a := newPeer(t, c.Addrs(), "a", nil)
			await(t, "failed", func() bool { return a.failed != nil }, a)
			if a.failed.Class != broker.Fatal || a.failed.Code != err.Code {
				t.Fatal(a.failed)
			}
			if err == kerr.InvalidSessionTimeout && !(errors.Is(a.failed, sarama.ErrInvalidSessionTimeout) && strings.Contains(a.failed.Error(), "group.max.session.timeout.ms")) {
				t.Errorf("nobody can tell from it what to change: %v", a.failed)
			}
		})
	}
}

// A join that waits for a member that does not come back must not hold up closing.
func TestGroupClosesWhileItsJoinIsPending(t *testing.T) {
	c := groupCluster(t, 2)
	addrs := c.Addrs()
	a := newPeer(t, addrs, "a", func(c *kafka.GroupConfig) { c.RebalanceTimeout, c.HeartbeatInterval = 2*patience, time.Hour })
	await(t, "a has all", owns(2, a), a)
	joins := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	b := newPeer(t, addrs, "b", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := joins.Wait(ctx, 2); err != nil { // the first only hands out the id
		t.Fatal(err)
	}
	b.close(true) // it gives up after less than the join may take
	if b.take(); len(b.seen) > 0 {
		t.Errorf("its join was not pending: %+v", b.seen)
	}
}

// No broker: a state, not an exit; and closing works.
func TestGroupWithoutABrokerWaits(t *testing.T) {
	a := newPeer(t, []string{"127.0.0.1:1"}, "a", nil)
	await(t, "the outage shows", func() bool {
		return slices.ContainsFunc(a.seen, func(e broker.Event) bool { c, ok := e.(broker.ConnectionChanged); return ok && !c.Up })
	}, a)
	a.Commit(1, broker.Offsets{tps(0)[0]: {At: 1}})
	await(t, "a commit is answered", func() bool { return len(a.commits[1]) == 1 }, a)
	if err := a.commits[1][0]; err == nil || err.Class != broker.Migrated {
		t.Fatal(err)
	}
	a.CommittedOffsets(2, tps(0), true)
	a.close(true)
	a.take()
	if _, ok := a.fetched[2]; !ok {
		t.Error("offsets were never answered")
	}
	if a.failed != nil {
		t.Error(a.failed)
	}
}

func TestNewGroupNamesWhatIsMissing(t *testing.T) {
	if _, err := kafka.NewGroup(kafka.GroupConfig{}, func(broker.Event) {}); err == nil {
		t.Fatal("an empty configuration is accepted")
	}
	g, err := kafka.NewGroup(kafka.GroupConfig{Group: "g", Topics: []string{"t"}, Assignor: &planner{}}, func(broker.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(t.Context(), true); err != nil {
		t.Fatal("closing a member that was never started:", err)
	}
}
