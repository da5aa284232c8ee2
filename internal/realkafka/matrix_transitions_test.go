//go:build realkafka

package realkafka_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/matrix"
	"github.com/millrace-io/millrace/record"
)

// processTransitions lead a node in another process to the situation of a row and a case.
var processTransitions = map[string]func(*scene){
	"r01-created/open": (*scene).created,
	"r01-created/get":  (*scene).created,

	"r02-unknown-store/created": (*scene).created,
	"r02-unknown-store/running": (*scene).isRunning,
	"r02-unknown-store/error":   (*scene).failed,

	"r03-rebalancing-acquire/nothing can be read":     (*scene).removed,
	"r03-rebalancing-acquire/a partition can be read": (*scene).halfBroken,
	"r03-rebalancing-acquire/strict":                  (*scene).halfBroken,

	"r04-rebalancing-read/restoring": (*scene).restoring,

	"r06-healthy-partition/by default": (*scene).halfBroken,
	"r06-healthy-partition/strict":     (*scene).halfBroken,

	"r07-handle-closed/moved":       with((*scene).openView, (*scene).moved),
	"r07-handle-closed/opened anew": with((*scene).openView, (*scene).openedAnew),

	"r08-no-local-task/running":     (*scene).elsewhere,
	"r08-no-local-task/rebalancing": (*scene).elsewhereWhileRestoring,

	"r09-explicit-partition/not here": (*scene).elsewhere,
	"r09-explicit-partition/nowhere":  (*scene).isRunning,

	"r10-type-mismatch/created":     (*scene).created,
	"r10-type-mismatch/rebalancing": (*scene).removed,
	"r10-type-mismatch/running":     (*scene).isRunning,
	"r10-type-mismatch/stopped":     with(nil, (*scene).stopped),

	"r11-global-closed/created":                       globally((*scene).created),
	"r11-global-closed/bootstrapped":                  globally((*scene).bootstrapped),
	"r11-global-closed/served before the threads run": globally((*scene).globalBeforeThreads),
	"r11-global-closed/replacement pending":           globally((*scene).globalPending),
	"r11-global-closed/opened anew":                   globally(with((*scene).openGlobal, (*scene).globalAnew)),
	"r11-global-closed/stopping, acquire":             globally(with(nil, (*scene).stopping)),
	"r11-global-closed/stopping":                      globally(with((*scene).openGlobal, (*scene).stopping)),
	"r11-global-closed/given up":                      globally((*scene).globalGivenUp),

	"r12-stopping-acquire/open": with(nil, (*scene).stopping),
	"r12-stopping-acquire/get":  with(nil, (*scene).stopping),
	"r13-stopping-read/view":    with((*scene).openView, (*scene).stopping),
	"r14-stopped-read/view":     with((*scene).openView, (*scene).stopped),

	"r15-failed-acquire/pending error": (*scene).failing,
	"r15-failed-acquire/error":         (*scene).failed,
	"r16-failed-read/pending error":    func(s *scene) { s.failingWith((*scene).openView) },
	"r16-failed-read/error":            func(s *scene) { s.failedWith((*scene).openView) },

	"r17-threads-replaced/replacement pending":        (*scene).replacementPending,
	"r17-threads-replaced/removed, no owner known":    (*scene).removed,
	"r17-threads-replaced/removed, an owner is known": (*scene).removedToAnother,

	"r18-iterator-closed/next":       with((*scene).beginScan, func(*scene) {}),
	"r19-iterator-moved/moved":       (*scene).movedUnderScan,
	"r19-iterator-moved/opened anew": with((*scene).beginScan, (*scene).openedAnew),
	"r20-iterator-stopping/stopping": with((*scene).beginScan, (*scene).stopping),
	"r20-iterator-stopping/failed":   func(s *scene) { s.failedWith((*scene).beginScan) },

	"r21-no-metadata/no partitions": (*scene).withoutBroker,
	"r21-no-metadata/known":         (*scene).elsewhere,
}

// Every transition belongs to a case of level 3.
func TestMatrixTwoProcessesHasNoTransitionOfItsOwn(t *testing.T) {
	cases := map[string]bool{}
	for _, row := range matrix.Rows {
		for _, c := range row.Cases {
			cases[row.ID+"/"+c.Name] = row.NA(3, &c) == ""
		}
	}
	for name := range processTransitions {
		if !cases[name] {
			t.Errorf("%q is not a case of level 3", name)
		}
	}
}

// with begins with a node that is RUNNING; the asker takes hold of its store, and then it happens.
func with(hold, happens func(*scene)) func(*scene) {
	return func(s *scene) {
		s.running()
		if hold != nil {
			hold(s)
		}
		happens(s)
	}
}

func ends(s *matrixNode)    { s.Ends = true }
func patient(s *matrixNode) { s.Patient = true }

func (s *scene) created() { s.create() }

func (s *scene) isRunning() { s.running() }

// halfBroken has two threads, of which the one with partition 1 has failed and waits for hours.
func (s *scene) halfBroken() {
	s.spread(patient)
	s.say(1, "poison", matrixKeys(1)[0])
	s.await("partition 1 is down and partition 0 is not", func(at []query.Location) bool {
		return at[0].State == "serving" && at[1].State == "revoked"
	})
	s.awaitState("REBALANCING")
}

// spread is a running node of two threads that have a partition each.
func (s *scene) spread(change ...func(*matrixNode)) {
	s.t.Helper()
	s.running(change...)
	before, err := query.Locations(s.ctx, s.node, "counts")
	if err != nil {
		s.t.Fatal(err)
	}
	s.node.do("/add")
	s.await("a partition is opened anew", func(at []query.Location) bool {
		moved := at[0].Epoch != before[0].Epoch || at[1].Epoch != before[1].Epoch
		return moved && at[0].State == "serving" && at[1].State == "serving"
	})
	s.awaitState("RUNNING")
	for n := 1; !s.apart(fmt.Sprintf("block%d", n)); n++ {
		if s.ctx.Err() != nil {
			s.t.Fatal("both partitions stay on one thread")
		}
	}
	s.awaitServed()
}

// apart says that partition 1 goes on while partition 0 is held in a record: nothing less shows that two threads have them,
// since a thread may run without a partition, and a partition may be opened anew where it was.
func (s *scene) apart(block string) bool {
	s.t.Helper()
	s.say(0, block, matrixKeys(0)[0])
	defer s.node.do("/unblock?line=" + block)
	s.say(1, "line", matrixKeys(1)[0])
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, _, err := query.Get(ctx, s.node, matrixCounts, matrixKeys(1)[0], query.AtLeast(record.Position{s.source(1): s.next[1]})); err == nil {
			return s.behind(0)
		}
	}
	return false
}

// behind says that a partition has not taken up what was written.
func (s *scene) behind(p int32) bool {
	var at query.Tracker
	_, _, err := query.Get(s.ctx, s.node, matrixCounts, matrixKeys(p)[0], query.Track(&at))
	return err == nil && at.Position()[s.source(p)] < s.next[p]
}

// unfinished leaves transactions open in both changelogs, which no restore can pass.
func (s *scene) unfinished() {
	s.t.Helper()
	x := newProducer(s.t, s.c, "somebody-of-"+s.app)
	for p := range int32(2) {
		x.put(s.changelog(p), "unfinished")
	}
	if f := x.flush(); f.Err != nil {
		s.t.Fatal(f.Err)
	}
}

// restoring is held behind a transaction that is open in the changelog.
func (s *scene) restoring() {
	s.running()
	s.stopped()
	s.unfinished()
	s.run()
	s.await("partition 0 is restored", func(at []query.Location) bool { return at[0].State == "restoring" })
}

// moves says which partition is there, as the asked node knows.
func (s *scene) moves(state string) {
	s.t.Helper()
	s.there.awaitStatus("runs with one task", func(st matrixStatus) bool { return st.State == "RUNNING" && st.Owned == 1 })
	s.node.awaitStatus("is "+state, func(st matrixStatus) bool { return st.State == state })
	s.await("a partition is there", func(at []query.Location) bool {
		for _, l := range at {
			if l.Owner == s.there.address && !l.Here {
				s.partition = l.Partition
				return true
			}
		}
		return false
	})
}

// moved has another node take one of the partitions over.
func (s *scene) moved() {
	s.another()
	s.moves("RUNNING")
}

// movedUnderScan holds a scan of each partition, since which one moves is the assignor's choice.
func (s *scene) movedUnderScan() {
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
func (s *scene) openedAnew() {
	at, err := query.Locations(s.ctx, s.node, "counts")
	if err != nil {
		s.t.Fatal(err)
	}
	s.say(s.partition, "slip", matrixKeys(s.partition)[0])
	s.await("another incarnation serves it", func(now []query.Location) bool {
		l := now[s.partition]
		return l.State == "serving" && l.Epoch > at[s.partition].Epoch
	})
	s.awaitState("RUNNING")
}

// elsewhere has another node from the beginning own a partition that is asked for.
func (s *scene) elsewhere() {
	s.running()
	s.there = s.node
	s.run()
	s.moves("RUNNING")
}

// elsewhereWhileRestoring is the same while the asked node restores its own partition.
func (s *scene) elsewhereWhileRestoring() {
	s.running()
	s.there = s.node
	s.unfinished()
	s.run()
	s.moves("REBALANCING")
}

// block has a thread held in a record of partition 0.
func (s *scene) block() {
	s.t.Helper()
	s.say(0, "block", matrixKeys(0)[0])
	s.node.awaitStatus("is held in the record", func(st matrixStatus) bool { return st.Held["block"] })
}

// stopping is held in a record that is being processed.
func (s *scene) stopping() {
	s.block()
	s.node.do("/shutdown")
	s.awaitState("PENDING_SHUTDOWN")
}

func (s *scene) stopped() {
	s.node.do("/shutdown")
	s.awaitState("NOT_RUNNING")
}

func (s *scene) failing() { s.failingWith(func(*scene) {}) }
func (s *scene) failed()  { s.failedWith(func(*scene) {}) }

// failingWith has two threads, of which one fails, which ends the node, while the other is held in a record.
func (s *scene) failingWith(hold func(*scene)) {
	s.spread(ends)
	hold(s)
	s.block()
	s.say(1, "poison", matrixKeys(1)[0])
	s.awaitState("PENDING_ERROR")
}

func (s *scene) failedWith(hold func(*scene)) {
	s.failingWith(hold)
	s.node.do("/unblock?line=block")
	s.awaitState("ERROR")
}

// replacementPending has the only thread fail and wait for hours.
func (s *scene) replacementPending() {
	s.running(patient)
	s.say(0, "poison", matrixKeys(0)[0])
	s.awaitState("REBALANCING")
	s.await("the lease has ended", func(at []query.Location) bool { return at[0].State == "revoked" })
}

// removed has no thread left.
func (s *scene) removed() {
	s.running()
	s.node.do("/remove?thread=thread-1")
	s.awaitState("REBALANCING")
}

// removedToAnother has two threads, one of which is removed, and another node that takes its partition over.
func (s *scene) removedToAnother() {
	s.spread()
	s.another()
	s.there.awaitStatus("is RUNNING", func(st matrixStatus) bool { return st.State == "RUNNING" })
	s.node.do("/remove?thread=thread-1")
	s.moves("RUNNING")
}

// withoutBroker talks to an address that takes connections and never answers.
func (s *scene) withoutBroker() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	s.run(func(n *matrixNode) { n.Brokers = []string{l.Addr().String()} })
	s.awaitState("REBALANCING")
}
