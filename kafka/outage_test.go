package kafka_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// silent accepts connections and never says anything, as a stopped process does. hit hears of each.
func silent(t *testing.T, hit func()) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			hit()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// hang takes requests of a kind and never answers. hit hears of each.
func hang(c *embedded.Cluster, key kmsg.Key, hit func()) {
	c.Kfake().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		hit()
		return nil, nil, true
	})
}

// noticing is below a request's time-out.
const noticing = 14 * time.Second

// hold is a context that ends when the request that hangs has begun, and what its end is checked by.
type hold struct {
	context.Context
	enough error
	end    context.CancelCauseFunc
	ended  atomic.Pointer[time.Time]
}

func newHold(t *testing.T) *hold {
	h := &hold{enough: errors.New("enough")}
	h.Context, h.end = context.WithCancelCause(within(t, patience))
	return h
}

func (h *hold) hit() {
	now := time.Now()
	h.ended.CompareAndSwap(nil, &now)
	h.end(h.enough)
}

// noticed checks that what returned err hung, and ended because the context did: not with a request's own time-out, which is
// 15 s and would be tried again.
func (h *hold) noticed(t *testing.T, err error) {
	t.Helper()
	ended := h.ended.Load()
	if ended == nil {
		t.Fatalf("nothing hung; it ended with %v", err)
	}
	if d := time.Since(*ended); d > noticing {
		t.Errorf("it took %s to notice", d)
	}
	if !errors.Is(err, h.enough) {
		t.Errorf("it ended with %v", err)
	}
}

func TestHungRequestsEndWithTheirContext(t *testing.T) {
	type world struct {
		admin     *kafka.Admin
		changelog *kafka.Changelog
	}
	for name, c := range map[string]struct {
		hangs kmsg.Key
		call  func(ctx context.Context, w world) error
	}{
		"Topics":  {kmsg.Metadata, func(ctx context.Context, w world) error { _, err := w.admin.Topics(ctx, "t"); return err }},
		"Cluster": {kmsg.Metadata, func(ctx context.Context, w world) error { _, err := w.admin.Cluster(ctx); return err }},
		"CreateTopics": {kmsg.CreateTopics, func(ctx context.Context, w world) error {
			return w.admin.CreateTopics(ctx, []kafka.TopicSpec{{Name: "n", Partitions: 1, Replication: -1}})
		}},
		"TopicConfig": {kmsg.DescribeConfigs, func(ctx context.Context, w world) error { _, err := w.admin.TopicConfig(ctx, "t"); return err }},
		"Ends":        {kmsg.ListOffsets, func(ctx context.Context, w world) error { _, err := w.admin.Ends(ctx, tps(0), false); return err }},
		"CommittedOffsets": {kmsg.OffsetFetch, func(ctx context.Context, w world) error {
			_, err := w.admin.CommittedOffsets(ctx, "g", tps(0))
			return err
		}},
		"the group's coordinator": {kmsg.FindCoordinator, func(ctx context.Context, w world) error {
			_, err := w.admin.CommittedOffsets(ctx, "g", tps(0))
			return err
		}},
		"Read": {kmsg.Fetch, func(ctx context.Context, w world) error {
			return w.changelog.Read(ctx, tp(0), 0, 10, true, func(broker.Batch) error { return nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := groupCluster(t, 1)
			var w world
			var err error
			w.admin = newAdmin(t, cluster.Addrs())
			if w.changelog, err = kafka.NewChangelog(kafka.Config{Brokers: cluster.Addrs()}); err != nil {
				t.Fatal(err)
			}
			defer w.changelog.Close()
			h := newHold(t)
			hang(cluster, c.hangs, h.hit)
			err = c.call(h, w)
			h.noticed(t, err)
			if e := (*broker.Error)(nil); name != "Read" && !errors.As(err, &e) {
				t.Errorf("not a *broker.Error: %v", err)
			}
		})
	}
}

// The library opens connections with a handshake of its own, which no time-out of a dial ends.
func TestABrokerThatAcceptsAndSaysNothingHoldsNobodyUp(t *testing.T) {
	h := newHold(t)
	_, err := newAdmin(t, []string{silent(t, h.hit)}).Cluster(h)
	h.noticed(t, err)
	h = newHold(t)
	var unreachable *kafka.UnreachableError
	err = kafka.Reach(h, kafka.Config{Brokers: []string{silent(t, h.hit)}})
	if h.noticed(t, err); !errors.As(err, &unreachable) {
		t.Fatal(err)
	}
	// It does not hide a seed that answers, for longer than one request.
	accepted := make(chan struct{}, 100)
	addr := silent(t, func() { accepted <- struct{}{} })
	c := groupCluster(t, 1)
	cfg := kafka.Config{Brokers: append([]string{addr}, c.Addrs()...), RequestTimeout: 500 * time.Millisecond}
	if err := kafka.Reach(within(t, patience), cfg); err != nil {
		t.Fatal(err)
	}
	// Nor does it keep anybody from closing.
	r := newReader(t, []string{addr}, nil)
	for len(accepted) > 0 {
		<-accepted
	}
	r.start(tp(0), 0)
	<-accepted
	start := time.Now()
	r.Close()
	if d := time.Since(start); d > noticing {
		t.Fatalf("closing took %s", d)
	}
}

// outage drops the connections of some brokers whatever they carry.
type outage struct {
	nodes atomic.Int64 // a bit each
	hits  atomic.Int64
}

func newOutage(c *embedded.Cluster) *outage {
	o := &outage{}
	c.Kfake().Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		if o.nodes.Load()&(1<<c.Kfake().CurrentNode()) == 0 {
			return nil, nil, false
		}
		o.hits.Add(1)
		return nil, errors.New("down"), true
	})
	return o
}

// changes are the connection events among some, as "fetch up" and "fetch down".
func changes(events []broker.Event) (said []string) {
	for _, e := range events {
		if e, ok := e.(broker.ConnectionChanged); ok {
			said = append(said, e.Role+map[bool]string{true: " up", false: " down"}[e.Up])
		}
	}
	return said
}

// One of three brokers is no outage; three are, and it is said once.
func TestConnectionIsDownWhenNoBrokerAnswers(t *testing.T) {
	c := groupCluster(t, 3)
	for p := range int32(3) {
		if err := c.Kfake().MoveTopicPartition("t", p, p); err != nil {
			t.Fatal(err)
		}
	}
	w := newWriter(t, c.Addrs(), nil)
	for p := range int32(3) {
		w.put(t, tp(p), 0, 10)
	}
	w.flush(t)
	o := newOutage(c)
	r := newReader(t, c.Addrs(), nil)
	var said []string
	r.hear = func(e broker.Event) { said = append(said, changes([]broker.Event{e})...) }
	o.nodes.Store(1 << 1)
	for p := range int32(3) {
		r.start(tp(p), 0)
	}
	r.until("two go on", func() bool { return r.has(tp(0), 10)() && r.has(tp(2), 10)() })
	for o.hits.Load() < 5 {
		<-within(t, 20*time.Millisecond).Done()
	}
	r.take()
	if len(said) > 0 || len(r.got[tp(1)]) > 0 {
		t.Fatalf("one broker of three is down, and the role is said to be %v; %d records came of it", said, len(r.got[tp(1)]))
	}
	o.nodes.Store(0b111)
	r.until("down", func() bool { return len(said) > 0 })
	o.nodes.Store(0)
	r.until("all are read", func() bool { return r.has(tp(1), 10)() && len(said) > 1 })
	if len(said) != 2 || said[0] != "fetch down" || said[1] != "fetch up" {
		t.Fatalf("%v", said)
	}
}

// A group that went on without a silent member tells it so; before that nothing is lost, for all of several sessions.
func TestGroupIsLostWhenItIsToldNotBefore(t *testing.T) {
	c := groupCluster(t, 2)
	a := newPeer(t, c.Addrs(), "a", func(c *kafka.GroupConfig) { c.SessionTimeout = 300 * time.Millisecond })
	await(t, "a has all", owns(2, a), a)
	o := newOutage(c)
	o.nodes.Store(0b111)
	a.Commit(1, broker.Offsets{tp(0): {At: 7}})
	await(t, "the outage shows", func() bool { return slices.Contains(changes(a.seen), "group down") }, a)
	before := a.lost // on a slow machine a session may have run out before the silence
	<-within(t, 1500*time.Millisecond).Done()
	a.take()
	if a.lost > before || len(a.commits[1]) > 0 || o.hits.Load() == 0 {
		t.Fatalf("lost %d times in the silence, commit answered %v, %d requests dropped", a.lost-before, a.commits[1], o.hits.Load())
	}
	o.nodes.Store(0)
	await(t, "told, lost, and back", func() bool { return a.lost > before && len(a.owned) == 2 && len(a.commits[1]) == 1 }, a)
	if err := a.commits[1][0]; err == nil || err.Class != broker.Migrated {
		t.Fatalf("a zombie's commit was answered with %v", err)
	}
	if said := changes(a.seen); len(said) != 2 || said[0] != "group down" || said[1] != "group up" {
		t.Fatalf("%v", said)
	}
}

// Somebody else makes the topic between the look and the making: theirs is checked.
func TestCreateTopicsChecksWhatAnotherMadeMeanwhile(t *testing.T) {
	for _, made := range []kafka.TopicSpec{
		{Name: "n", Partitions: 2, Replication: -1, Configs: map[string]string{"cleanup.policy": "compact"}},
		{Name: "n", Partitions: 3, Replication: -1, Configs: map[string]string{"cleanup.policy": "compact"}},
		{Name: "n", Partitions: 2, Replication: -1, Configs: map[string]string{"cleanup.policy": "delete"}},
	} {
		c := groupCluster(t, 1)
		other := newAdmin(t, c.Addrs())
		first := true
		var raced error
		c.Kfake().ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			if !first {
				return nil, nil, false
			}
			first = false
			c.Kfake().SleepControl(func() { raced = other.CreateTopics(context.Background(), []kafka.TopicSpec{made}) })
			return nil, nil, false
		})
		want := kafka.TopicSpec{Name: "n", Partitions: 2, Replication: -1, Configs: map[string]string{"cleanup.policy": "compact"}}
		err := newAdmin(t, c.Addrs()).CreateTopics(within(t, patience), []kafka.TopicSpec{want})
		if first || raced != nil {
			t.Fatalf("nobody was faster: %v", raced)
		}
		fits := made.Partitions == 2 && made.Configs["cleanup.policy"] == "compact"
		var failed *broker.Error
		var mismatch *kafka.TopicMismatchError
		if fits && err != nil || !fits && (!errors.As(err, &failed) || failed.Class != broker.Fatal || !errors.As(err, &mismatch)) {
			t.Errorf("%v was there: %v", made, err)
		}
	}
}

// Without stable, what was committed before a pending transaction is read at once; with it, once that is decided.
func TestCommittedOffsetsWaitForATransactionOnlyIfAsked(t *testing.T) {
	c := groupCluster(t, 1)
	a := newPeer(t, c.Addrs(), "a", nil)
	await(t, "a has all", owns(1, a), a)
	a.Commit(1, broker.Offsets{tp(0): {At: 5, Metadata: "m"}})
	await(t, "committed", func() bool { return len(a.commits[1]) == 1 }, a)
	pending := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: -1, When: func(r kmsg.Request) bool {
		return r.(*kmsg.OffsetFetchRequest).RequireStable
	}})
	defer pending.Remove()
	a.CommittedOffsets(2, tps(0), true)
	a.CommittedOffsets(3, tps(0), false)
	await(t, "the unstable read is answered", func() bool { _, ok := a.fetched[3]; return ok }, a)
	for pending.Hits() < 3 {
		<-within(t, 20*time.Millisecond).Done()
	}
	a.take()
	if _, early := a.fetched[2]; early {
		t.Fatal("a pending transaction's positions were read")
	}
	pending.Remove()
	await(t, "the stable read is answered", func() bool { _, ok := a.fetched[2]; return ok }, a)
	for token, f := range a.fetched {
		if f.Err != nil || f.Offsets[tp(0)] != (broker.Offset{At: 5, Metadata: "m"}) {
			t.Errorf("%d: %+v", token, f)
		}
	}
}
