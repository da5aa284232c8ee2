package query

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/lifecycle"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests see to testdata")

// live is a node that runs and serves partition 1 of 4 under lease 7; each case changes what it is about.
func live() Situation {
	return Situation{
		Node: lifecycle.NodeRunning, Thread: lifecycle.ThreadRunning, HasThread: true, Declared: true,
		Partitions: 4, Partition: 1, Lease: LeaseServing, LeaseEpoch: 7,
	}
}

func with(changes ...func(*Situation)) Situation {
	s := live()
	for _, change := range changes {
		change(&s)
	}
	return s
}

func node(n lifecycle.Node) func(*Situation)  { return func(s *Situation) { s.Node = n } }
func thr(t lifecycle.Thread) func(*Situation) { return func(s *Situation) { s.Thread = t } }
func noThread(s *Situation)                   { s.Thread, s.HasThread = 0, false }
func lease(l Lease) func(*Situation)          { return func(s *Situation) { s.Lease = l } }
func epoch(e uint64) func(*Situation)         { return func(s *Situation) { s.Epoch, s.Held = e, true } }
func partition(p int32) func(*Situation)      { return func(s *Situation) { s.Partition = p } }
func unknownCount(s *Situation)               { s.Partitions = 0 }
func held(s *Situation)                       { s.Held = true }
func elsewhere(s *Situation)                  { s.OwnerElsewhere = true }
func undeclared(s *Situation)                 { s.Declared = false }
func mistake(k Kind) func(*Situation)         { return func(s *Situation) { s.Mistake = k } }
func isGlobal(s *Situation)                   { s.Global, s.Partitions, s.Partition = true, 1, 0 }
func full(s *Situation)                       { s.Full = true }
func late(s *Situation)                       { s.Late = true }
func strict(s *Situation)                     { s.RequireRunning = true }
func derived(s *Situation)                    { s.Derived = true }
func behind(lag, most int64) func(*Situation) {
	return func(s *Situation) { s.Stale, s.Lag, s.MaxLag = true, lag, most }
}
func group(known bool) func(*Situation) {
	return func(s *Situation) { s.Group, s.Known = true, known }
}
func all(fs ...func(*Situation)) func(*Situation) {
	return func(s *Situation) {
		for _, f := range fs {
			f(s)
		}
	}
}

var inRebalance = all(node(lifecycle.NodeRebalancing), thr(lifecycle.ThreadRebalancing))

var decisions = []struct {
	name string
	s    Situation
	want Kind
	wrap error
}{
	{"serves", with(), 0, nil},
	{"serves a View", with(epoch(7)), 0, nil},
	{"one rebalancing thread hides no healthy partition", with(node(lifecycle.NodeRebalancing)), 0, nil},
	{"it does under RequireRunning", with(node(lifecycle.NodeRebalancing), strict), StreamThreadRebalancing, nil},
	{"RequireRunning on a running node", with(strict), 0, nil},
	{"a task that stays answers during a rebalance", with(inRebalance), 0, nil},
	{"unknown wins in CREATED", with(node(lifecycle.NodeCreated), noThread, undeclared), UnknownStateStore, nil},
	{"unknown wins in ERROR", with(node(lifecycle.NodeError), undeclared), UnknownStateStore, nil},
	{"type mismatch wins in CREATED", with(node(lifecycle.NodeCreated), mistake(StateStoreTypeMismatch)), StateStoreTypeMismatch, nil},
	{"invalid query", with(mistake(InvalidQuery)), InvalidQuery, nil},
	{"a global store serves", with(isGlobal), 0, nil},
	{"a global store serves in a rebalance", with(isGlobal, node(lifecycle.NodeRebalancing)), 0, nil},
	{"a global store is bootstrapped", with(isGlobal, inRebalance, lease(LeaseRestoring)), StreamThreadRebalancing, nil},
	{"a global store before it is opened", with(isGlobal, node(lifecycle.NodeRebalancing), noThread, lease(LeaseNone)), StreamThreadRebalancing, nil},
	{"a global store is never elsewhere", with(isGlobal, lease(LeaseRevoked), elsewhere), StreamThreadRebalancing, nil},
	{"a global store has no other partition", with(isGlobal, partition(1)), PartitionNotInStore, nil},
	{"a global store has failed", with(isGlobal, lease(LeaseFailed)), StoreFailure, nil},
	{"a global store is replaced", with(isGlobal, inRebalance, lease(LeaseFailed)), StreamThreadRebalancing, nil},
	{"a View of a global store that was opened anew", with(isGlobal, epoch(6)), StateStoreMigrated, ErrStateStoreClosed},
	{"a global store that was given up", with(isGlobal, thr(lifecycle.ThreadError), lease(LeaseFailed)), StreamThreadNotRunning, nil},
	{"a global store of a node that stops", with(isGlobal, epoch(7), node(lifecycle.NodePendingShutdown)), StateStoreNotAvailable, ErrStateStoreClosed},
	{"iterator closed", with(mistake(IteratorClosed)), IteratorClosed, nil},
	{"no such partition", with(partition(4)), PartitionNotInStore, nil},
	{"negative partition", with(partition(-1)), PartitionNotInStore, nil},
	{"no such partition, after the end", with(partition(4), node(lifecycle.NodeNotRunning)), PartitionNotInStore, nil},
	{"partition of an unknown count", with(partition(9), unknownCount, node(lifecycle.NodeCreated), noThread, lease(LeaseNone)), StreamThreadNotStarted, nil},
	{"acquire while stopping", with(node(lifecycle.NodePendingShutdown)), StreamThreadNotRunning, nil},
	{"acquire after the stop", with(node(lifecycle.NodeNotRunning), lease(LeaseRevoked)), StreamThreadNotRunning, nil},
	{"acquire in PENDING_ERROR", with(node(lifecycle.NodePendingError)), StreamThreadNotRunning, nil},
	{"acquire in ERROR", with(node(lifecycle.NodeError)), StreamThreadNotRunning, nil},
	{"View while stopping", with(node(lifecycle.NodePendingShutdown), epoch(7)), StateStoreNotAvailable, ErrStateStoreClosed},
	{"scan of a partition never here, after the stop", with(node(lifecycle.NodeNotRunning), held, lease(LeaseNone)), StateStoreNotAvailable, ErrEmptyStateStore},
	{"the partition's thread is in ERROR", with(thr(lifecycle.ThreadError)), StreamThreadNotRunning, nil},
	{"created", with(node(lifecycle.NodeCreated), noThread, lease(LeaseNone)), StreamThreadNotStarted, nil},
	{"an old View on a new node", with(node(lifecycle.NodeCreated), noThread, lease(LeaseNone), epoch(7)), StreamThreadNotStarted, ErrStateStoreClosed},
	{"elsewhere, no View", with(lease(LeaseNone), noThread, elsewhere), InvalidStateStorePartition, nil},
	{"all threads run and none has it", with(lease(LeaseNone), noThread), InvalidStateStorePartition, nil},
	{"moved under a View", with(lease(LeaseRevoked), epoch(7), elsewhere), StateStoreMigrated, ErrStateStoreClosed},
	{"moved under a scan that has not reached it", with(lease(LeaseNone), noThread, held, elsewhere), StateStoreMigrated, ErrEmptyStateStore},
	{"opened anew under a View", with(epoch(6)), StateStoreMigrated, ErrStateStoreClosed},
	{"being opened anew under a View", with(inRebalance, lease(LeaseOpening), epoch(6)), StateStoreMigrated, ErrStateStoreClosed},
	{"restarting", with(inRebalance, lease(LeaseRevoked)), StreamThreadRebalancing, nil},
	{"a question that waited when the incarnation ended", with(inRebalance, lease(LeaseRevoked), held), StreamThreadRebalancing, nil},
	{"opening", with(inRebalance, lease(LeaseOpening)), StreamThreadRebalancing, nil},
	{"restoring", with(inRebalance, lease(LeaseRestoring)), StreamThreadRebalancing, nil},
	{"restoring wins over an older view of the group", with(inRebalance, lease(LeaseRestoring), elsewhere), StreamThreadRebalancing, nil},
	{"replaying under a thread that runs", with(lease(LeaseRestoring)), StreamThreadRebalancing, nil},
	{"not known yet", with(node(lifecycle.NodeRebalancing), noThread, lease(LeaseNone)), StreamThreadRebalancing, nil},
	{"given up by a thread that runs, no owner known", with(node(lifecycle.NodeRebalancing), lease(LeaseRevoked)), StreamThreadRebalancing, nil},
	{"the thread ends alone, no owner known", with(thr(lifecycle.ThreadPendingShutdown)), StreamThreadRebalancing, nil},
	{"the thread ends alone, an owner is known", with(thr(lifecycle.ThreadNotRunning), elsewhere, held), StateStoreMigrated, ErrStateStoreClosed},
	{"no view of the group", with(lease(LeaseNone), noThread, unknownCount), MetadataUnavailable, nil},
	{"engine failed", with(lease(LeaseFailed)), StoreFailure, nil},
	{"engine failed, restarting", with(inRebalance, lease(LeaseFailed)), StreamThreadRebalancing, nil},
	{"overloaded", with(full), Overloaded, nil},
	{"late", with(late), DeadlineExceeded, nil},
	{"overloaded and moved", with(full, epoch(6)), StateStoreMigrated, ErrStateStoreClosed},
	{"a key whose partition is elsewhere", with(lease(LeaseNone), noThread, elsewhere, derived), StateStoreMigrated, ErrEmptyStateStore},
	{"a key whose partition was here", with(lease(LeaseRevoked), derived), StateStoreMigrated, ErrStateStoreClosed},
	{"a standby, active only", with(lease(LeaseStandby), elsewhere), InvalidStateStorePartition, nil},
	{"a standby within the lag", with(lease(LeaseStandby), elsewhere, behind(10, 10)), 0, nil},
	{"a standby beyond the lag", with(lease(LeaseStandby), elsewhere, behind(11, 10)), InvalidStateStorePartition, nil},
	{"a standby of another lease", with(lease(LeaseStandby), behind(0, 10), epoch(6)), StateStoreMigrated, ErrStateStoreClosed},
	{"a standby on a node that stops", with(lease(LeaseStandby), behind(0, 10), node(lifecycle.NodePendingShutdown)), StreamThreadNotRunning, nil},
	{"about the group, known", with(lease(LeaseNone), noThread, group(true)), 0, nil},
	{"about the group, not known", with(lease(LeaseNone), noThread, group(false)), MetadataUnavailable, nil},
	{"about the group, rebalancing", with(inRebalance, lease(LeaseNone), group(false)), MetadataUnavailable, nil},
	{"about the group, no such partition", with(partition(4), group(true)), PartitionNotInStore, nil},
	{"about the group, stopped", with(node(lifecycle.NodeNotRunning), group(true)), StreamThreadNotRunning, nil},
}

// The design's table and the matrix of facts about Kafka Streams, as cases. Kind 0 means that the store answers.
func TestDecideByTheDesign(t *testing.T) {
	for _, c := range decisions {
		kind, serve := Decide(c.s)
		if kind != c.want || serve != (c.want == 0) {
			t.Errorf("%s: %v, serve %v; want %v", c.name, kind, serve, c.want)
			continue
		}
		if got := c.s.Wraps(kind); !errors.Is(got, c.wrap) {
			t.Errorf("%s: wraps %v, want %v", c.name, got, c.wrap)
		}
	}
}

// Precedence is the order of the constants: one rule for each kind, in order.
func TestRulesAreInTheOrderOfTheKinds(t *testing.T) {
	var got []Kind
	for _, r := range rules {
		got = append(got, r.kind)
	}
	if diff := cmp.Diff(Kinds(), got); diff != "" {
		t.Fatal(diff)
	}
}

// every calls f with every combination of states and situations.
func every(f func(Situation)) {
	bools := []bool{false, true}
	for n := lifecycle.NodeCreated; n <= lifecycle.NodeError; n++ {
		for th := -1; th <= int(lifecycle.ThreadError); th++ {
			for l := LeaseNone; l <= LeaseGivenUp; l++ {
				for bits := range 1 << 6 {
					on := func(bit int) bool { return bools[bits>>bit&1] }
					s := Situation{Node: n, HasThread: th >= 0, Declared: !on(0), Held: on(1), Lease: l, LeaseEpoch: 7,
						OwnerElsewhere: on(2), RequireRunning: on(3), Full: on(4), Late: on(5), Partition: 1}
					if th >= 0 {
						s.Thread = lifecycle.Thread(th)
					}
					for _, s.Partitions = range []int32{0, 1, 4} {
						for _, s.Epoch = range []uint64{0, 6, 7} {
							f(s)
						}
					}
				}
			}
		}
	}
}

// A store answers only under a live lease, of the asked epoch, on a node that runs; everything else has exactly one kind,
// and it is the first whose rule applies.
func TestDecideIsTotalAndSafe(t *testing.T) {
	served, failed := 0, map[Kind]int{}
	every(func(s Situation) {
		kind, serve := Decide(s)
		if serve {
			served++
			if s.Lease != LeaseServing || (s.Epoch != 0 && s.Epoch != 7) || !s.Declared ||
				(s.Node != lifecycle.NodeRebalancing && s.Node != lifecycle.NodeRunning) ||
				(s.HasThread && s.Thread != lifecycle.ThreadRebalancing && s.Thread != lifecycle.ThreadRunning) {
				t.Fatalf("serves in %+v", s)
			}
			return
		}
		failed[kind]++
		for _, r := range rules {
			if r.kind < kind && r.applies(&s) {
				t.Fatalf("%v although %v applies: %+v", kind, r.kind, s)
			}
		}
		if kind == StoreFailure && s.Lease != LeaseFailed {
			t.Fatalf("an engine is blamed that has not failed: %+v", s)
		}
		if wrap := s.Wraps(kind); (kind == StateStoreMigrated || kind == StateStoreNotAvailable) && wrap == nil {
			t.Fatalf("%v wraps nothing: %+v", kind, s)
		}
	})
	for _, k := range Kinds() {
		switch k {
		case StateStoreTypeMismatch, InvalidQuery, IteratorClosed: // mistakes are not combined here
			continue
		}
		if failed[k] == 0 {
			t.Errorf("no situation leads to %v", k)
		}
	}
	if served == 0 {
		t.Error("nothing is ever served")
	}
}

// The matrix of states and leases is a file that a person can review: testdata/decide.txt.
func TestDecideMatrix(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "# node thread lease: the kind when acquiring | with a View of this lease")
	for n := lifecycle.NodeCreated; n <= lifecycle.NodeError; n++ {
		for th := -1; th <= int(lifecycle.ThreadError); th++ {
			for l := LeaseNone; l <= LeaseGivenUp; l++ {
				s := with(node(n), lease(l), noThread)
				name := "-"
				if th >= 0 {
					s.Thread, s.HasThread = lifecycle.Thread(th), true
					name = s.Thread.String()
				}
				view := s
				epoch(7)(&view)
				fmt.Fprintf(&b, "%s %s %s: %s | %s\n", n, name, l, outcome(s), outcome(view))
			}
		}
	}
	if *rewrite {
		if err := os.WriteFile("testdata/decide.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/decide.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Fatal(diff)
	}
}

func outcome(s Situation) string {
	if kind, serve := Decide(s); !serve {
		return kind.String()
	}
	return "answers"
}
