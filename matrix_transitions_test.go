package millrace_test

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// transitions lead a node to the situation of a row and a case.
var transitions = map[string]func(*stage){
	"r01-created/open": (*stage).created,
	"r01-created/get":  (*stage).created,

	"r02-unknown-store/created": (*stage).created,
	"r02-unknown-store/running": (*stage).isRunning,
	"r02-unknown-store/error":   (*stage).failed,

	"r03-rebalancing-acquire/nothing can be read":     (*stage).opening,
	"r03-rebalancing-acquire/a partition can be read": (*stage).halfRestored,
	"r03-rebalancing-acquire/strict":                  (*stage).halfRestored,

	"r04-rebalancing-read/opening":   (*stage).opening,
	"r04-rebalancing-read/restoring": (*stage).restoring,

	"r06-healthy-partition/by default": (*stage).halfRestored,
	"r06-healthy-partition/strict":     (*stage).halfRestored,

	"r07-handle-closed/moved":       holding((*stage).openView, (*stage).moved),
	"r07-handle-closed/opened anew": holding((*stage).openView, (*stage).openedAnew),

	"r08-no-local-task/running":     (*stage).elsewhere,
	"r08-no-local-task/rebalancing": (*stage).elsewhereWhileRestoring,

	"r09-explicit-partition/not here": (*stage).elsewhere,
	"r09-explicit-partition/nowhere":  (*stage).isRunning,

	"r10-type-mismatch/created":     (*stage).created,
	"r10-type-mismatch/rebalancing": (*stage).opening,
	"r10-type-mismatch/running":     (*stage).isRunning,
	"r10-type-mismatch/stopped":     holding(nil, (*stage).stopped),

	"r11-global-closed/created":                       globally((*stage).created),
	"r11-global-closed/bootstrapped":                  globally((*stage).bootstrapped),
	"r11-global-closed/served before the threads run": globally((*stage).withoutGroup),
	"r11-global-closed/replacement pending":           globally((*stage).globalPending),
	"r11-global-closed/opened anew":                   globally(holding((*stage).openGlobal, (*stage).globalAnew)),
	"r11-global-closed/stopping, acquire":             globally(holding(nil, (*stage).stopping)),
	"r11-global-closed/stopping":                      globally(holding((*stage).openGlobal, (*stage).stopping)),
	"r11-global-closed/given up":                      globally((*stage).globalGivenUp),

	"r12-stopping-acquire/open": holding(nil, (*stage).stopping),
	"r12-stopping-acquire/get":  holding(nil, (*stage).stopping),
	"r13-stopping-read/view":    holding((*stage).openView, (*stage).stopping),
	"r14-stopped-read/view":     holding((*stage).openView, (*stage).stopped),

	"r15-failed-acquire/pending error": (*stage).failing,
	"r15-failed-acquire/error":         (*stage).failed,
	"r16-failed-read/pending error":    func(s *stage) { s.failingWith((*stage).openView) },
	"r16-failed-read/error":            func(s *stage) { s.failedWith((*stage).openView) },

	"r17-threads-replaced/replacement pending":        (*stage).replacementPending,
	"r17-threads-replaced/removed, no owner known":    (*stage).removed,
	"r17-threads-replaced/removed, an owner is known": (*stage).removedToAnother,

	"r18-iterator-closed/next":       holding((*stage).beginScan, func(*stage) {}),
	"r19-iterator-moved/moved":       (*stage).movedUnderScan,
	"r19-iterator-moved/opened anew": holding((*stage).beginScan, (*stage).openedAnew),
	"r20-iterator-stopping/stopping": holding((*stage).beginScan, (*stage).stopping),
	"r20-iterator-stopping/failed":   func(s *stage) { s.failedWith((*stage).beginScan) },

	"r21-no-metadata/no partitions": (*stage).withoutTopics,
	"r21-no-metadata/no owners":     (*stage).withoutGroup,
	"r21-no-metadata/known":         (*stage).elsewhere,
}

// holding begins with a node that is RUNNING; the asker takes hold of its store, and then it happens.
func holding(hold, happens func(*stage)) func(*stage) {
	return func(s *stage) {
		s.running()
		if hold != nil {
			hold(s)
		}
		happens(s)
	}
}

func (s *stage) created() { s.create("here:1") }

func (s *stage) isRunning() { s.running() }

// before lets another node do the work and end, so that there are changelogs to restore from.
func (s *stage) before(partitions ...int32) {
	s.t.Helper()
	n := s.run("there:1")
	s.ready(n)
	s.fill(partitions...)
	if err := n.Drain(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	if err := s.stop(n); err != nil {
		s.t.Fatal(err)
	}
	for p := range int32(2) { // a connection that is held is held for all partitions of its broker
		if err := s.c.Kfake().MoveTopicPartition(changelog, p, p); err != nil {
			s.t.Fatal(err)
		}
	}
}

// opening is held before the ends of the changelog are known.
func (s *stage) opening() {
	s.before(0, 1)
	g := s.shut(kmsg.ListOffsets, func(r kmsg.Request) bool {
		for _, topic := range r.(*kmsg.ListOffsetsRequest).Topics {
			if topic.Topic == changelog {
				return true
			}
		}
		return false
	})
	s.run("here:1")
	g.await(s)
	s.awaitLease(0, query.LeaseOpening)
}

// restoring is held at the first read of the changelog.
func (s *stage) restoring() {
	s.before(0, 1)
	g := s.shutRestores()
	s.run("here:1")
	g.await(s)
	s.awaitLease(0, query.LeaseRestoring)
}

func (s *stage) awaitLease(p int32, want query.Lease) {
	s.t.Helper()
	s.await(fmt.Sprintf("partition %d is %s", p, want), func(at []query.Location) bool {
		return len(at) == 2 && at[p].State == want.String()
	})
}

// halfRestored has partition 0 on a thread that runs, and has processed since, while partition 1 is being restored.
func (s *stage) halfRestored() {
	s.before(1)
	g := s.shutRestores()
	n := s.run("here:1", millrace.WithThreads(2))
	g.await(s)
	s.await("partition 0 is served while partition 1 is restored", func(at []query.Location) bool {
		return len(at) == 2 && at[0].State == "serving" && at[0].Thread == "RUNNING" && at[1].State == "restoring" && n.State() == lifecycle.NodeRebalancing
	})
	s.fill(0)
	lines0 := record.TopicPartition{Topic: "lines", Partition: 0}
	if v, _, err := query.Get(s.ctx, n, counts, keysOf(0)[4], query.AtLeast(record.Position{lines0: 5})); v != 1 || err != nil {
		s.t.Fatal("the healthy partition does not go on:", v, err)
	}
}

// moves says which partition is at there:1, as the asked node knows, and asks for it.
func (s *stage) moves(also func() bool) {
	s.t.Helper()
	s.await("a partition is at there:1", func(at []query.Location) bool {
		for _, l := range at {
			if l.Owner == "there:1" && !l.Here && also() {
				s.partition = l.Partition
				return true
			}
		}
		return false
	})
}

// moved has another node take one of the partitions over.
func (s *stage) moved() {
	here := s.node
	there := s.run("there:1")
	s.node = here
	s.moves(func() bool { return len(there.Owned()) == 1 && len(here.Owned()) == 1 })
}

// movedUnderScan holds a scan of each partition, since which one moves is the assignor's choice.
func (s *stage) movedUnderScan() {
	s.running()
	scans := map[int32]*query.KeyValueIterator[string, int64]{}
	for p := range int32(2) {
		s.partition = p
		s.beginScan()
		scans[p] = s.scan
	}
	s.moved()
	s.scan = scans[s.partition]
}

// openedAnew has the thread fail once and be restarted.
func (s *stage) openedAnew() {
	before := s.epoch()
	s.say(s.partition, "slip")
	s.await("it is served again by another incarnation", func([]query.Location) bool {
		return s.epoch() > before && s.node.State() == lifecycle.NodeRunning
	})
}

func (s *stage) epoch() uint64 {
	at, err := query.Locations(s.ctx, s.node, "counts")
	if err != nil || at[s.partition].State != query.LeaseServing.String() {
		return 0
	}
	return at[s.partition].Epoch
}

// elsewhere has another node from the beginning own a partition that is asked for.
func (s *stage) elsewhere() {
	there := s.run("there:1")
	s.ready(there)
	s.fill(0, 1)
	here := s.run("here:1")
	s.moves(func() bool {
		return here.State() == lifecycle.NodeRunning && len(here.Owned()) == 1 && len(there.Owned()) == 1
	})
}

// elsewhereWhileRestoring is the same while the asked node restores its own partition.
func (s *stage) elsewhereWhileRestoring() {
	there := s.run("there:1")
	s.ready(there)
	s.fill(0, 1)
	if err := there.Drain(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	g := s.shutRestores()
	here := s.run("here:1")
	g.await(s)
	s.moves(func() bool { return here.State() == lifecycle.NodeRebalancing && len(there.Owned()) == 1 })
}

// stopping is held in its last commit.
func (s *stage) stopping() {
	g := s.shut(kmsg.EndTxn, always)
	s.say(0, "the last")
	g.await(s)
	go s.node.Shutdown(s.ctx) // the stage's end waits for it
	s.awaitState(lifecycle.NodePendingShutdown)
}

func (s *stage) stopped() {
	if err := s.stop(s.node); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) failing() { s.failingWith(func(*stage) {}) }
func (s *stage) failed()  { s.failedWith(func(*stage) {}) }

// spread is a running node of two threads that have a partition each.
func (s *stage) spread(opts ...millrace.Option) *millrace.Node {
	s.t.Helper()
	n := s.running(opts...)
	before, err := query.Locations(s.ctx, n, "counts")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := n.AddThread(); err != nil {
		s.t.Fatal(err)
	}
	s.await("a partition is opened anew", func(at []query.Location) bool {
		moved := at[0].Epoch != before[0].Epoch || at[1].Epoch != before[1].Epoch
		return moved && at[0].State == "serving" && at[1].State == "serving" && n.State() == lifecycle.NodeRunning
	})
	for i := 1; !s.apart(fmt.Sprintf("block%d", i)); i++ {
		if s.ctx.Err() != nil {
			s.t.Fatal("both partitions stay on one thread")
		}
	}
	s.ready(n)
	if err := n.Drain(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// apart says that partition 1 goes on while partition 0 is held in a record: nothing less shows that two threads have them,
// since a thread may run without a partition, and a partition may be opened anew where it was.
func (s *stage) apart(block string) bool {
	s.t.Helper()
	held := make(chan struct{})
	s.blocks.Store(block, held)
	defer close(held)
	s.say(0, block)
	s.say(1, "line")
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range 200 {
		if s.at(1) == s.next[1] {
			return s.at(0) < s.next[0]
		}
		<-ticker.C
	}
	return false
}

// at is how far the store of a partition is; 0 if it does not say.
func (s *stage) at(p int32) int64 {
	var tracker query.Tracker
	_, _, _ = query.Get(s.ctx, s.node, counts, keysOf(p)[0], query.Track(&tracker))
	return tracker.Position()[record.TopicPartition{Topic: "lines", Partition: p}]
}

// failingWith is a node of two threads of which one fails while the other's commit is held; the handler ends the node.
func (s *stage) failingWith(hold func(*stage)) {
	s.spread(millrace.WithUncaughtHandler(func(millrace.Failure) actors.Answer { return actors.ShutdownNode }))
	hold(s)
	g := s.shut(kmsg.EndTxn, always)
	s.say(0, "held")
	g.await(s)
	s.say(1, "poison")
	s.awaitState(lifecycle.NodePendingError)
}

// failedWith is the same when all of it has ended.
func (s *stage) failedWith(hold func(*stage)) {
	s.failingWith(hold)
	for _, g := range s.gates {
		g.open()
	}
	s.awaitState(lifecycle.NodeError)
}

// replacementPending has the only thread fail and wait an hour for its restart.
func (s *stage) replacementPending() {
	s.running(millrace.WithShutdownTimeout(time.Second), // it does not end before its restart
		millrace.WithRestarts(actors.Intensity{Max: 3, Window: time.Hour, First: 2 * time.Hour, Cap: 2 * time.Hour}))
	s.say(0, "poison")
	s.awaitState(lifecycle.NodeRebalancing)
	s.awaitLease(0, query.LeaseRevoked)
}

// removed has no thread left.
func (s *stage) removed() {
	n := s.running()
	if err := n.RemoveThread(s.ctx, "thread-1"); err != nil {
		s.t.Fatal(err)
	}
	s.awaitState(lifecycle.NodeRebalancing)
}

// removedToAnother has two threads, one of which is removed, and another node that takes its partition over.
func (s *stage) removedToAnother() {
	here := s.spread()
	there := s.run("there:1")
	s.ready(there)
	s.node = here
	if err := here.RemoveThread(s.ctx, "thread-1"); err != nil {
		s.t.Fatal(err)
	}
	s.moves(func() bool { return len(there.Owned()) == 1 && len(here.Owned()) == 1 })
}

// withoutTopics is held before the node knows how many partitions there are.
func (s *stage) withoutTopics() {
	g := s.shut(kmsg.Metadata, always)
	s.run("here:1")
	g.await(s)
	s.awaitState(lifecycle.NodeRebalancing)
}

// withoutGroup is held before the node is in the group.
func (s *stage) withoutGroup() {
	g := s.shut(kmsg.JoinGroup, always)
	s.run("here:1")
	g.await(s)
	s.awaitState(lifecycle.NodeRebalancing)
}
