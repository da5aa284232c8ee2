package thread_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// world is a cluster with a consumer group and two nodes, as far as loops can see it: logs, transactions, committed
// offsets, generations. It is the truth that the loops are held against. Nothing in it happens by itself: each request
// of a loop waits until an action of the test answers it, well or badly, early or late.
type world struct {
	t           *rapid.T
	exactlyOnce bool
	// calm ends all failures, so that the work gets done.
	calm   bool
	now    time.Time
	inputs map[record.TopicPartition][]record.Raw

	committed broker.Offsets
	changelog map[int32][]entry
	outputs   map[int32][]entry
	// overtaken are the counts, by partition, that a node which was no member any more has taken back: at least once, nothing
	// fences it, and what it had under way lands behind what its successor wrote. Exactly once there are none.
	overtaken map[int32]map[string]bool
	// producers are the transaction coordinator's view of each transactional id.
	producers map[string]*identity

	gen         int32
	rebalancing bool
	members     int
	live        []string
	nodes       []*node
	// trace is what has happened, for the one who has to understand a failure.
	trace []string
}

const (
	partitions = 3
	records    = 14
	// step is how many offsets a record takes: the second one is a marker.
	step = 2
	end  = records * step
)

// entry is a record in a log; it counts when its transaction is committed.
type entry struct {
	record.Raw
	txn *transaction
}

type outcome uint8

const (
	open outcome = iota
	committed
	aborted
)

// transaction is one transaction of one producer epoch.
type transaction struct {
	outcome outcome
	pending broker.Offsets
}

var settled = &transaction{outcome: committed}

// identity is a transactional id.
type identity struct {
	epoch int
	txn   *transaction
}

// abort ends the open transaction, and gives the id another epoch: whoever had it is fenced.
func (i *identity) abort() {
	i.epoch++
	if i.txn != nil && i.txn.outcome == open {
		i.txn.outcome = aborted
	}
	i.txn = nil
}

func newWorld(t *rapid.T, exactlyOnce bool) *world {
	w := &world{
		t: t, exactlyOnce: exactlyOnce, now: start, inputs: map[record.TopicPartition][]record.Raw{}, committed: broker.Offsets{},
		changelog: map[int32][]entry{}, outputs: map[int32][]entry{}, overtaken: map[int32]map[string]bool{}, producers: map[string]*identity{},
	}
	for p := range int32(partitions) {
		w.committed[in(p)] = broker.Offset{At: broker.None}
		for i := range records {
			word := fmt.Appendf(nil, "w%d", (int(p)+i*i)%5)
			w.inputs[in(p)] = append(w.inputs[in(p)], record.Raw{Key: word, Offset: int64(i) * step, Timestamp: int64(i)})
		}
	}
	for _, name := range []string{"a", "b"} {
		n := &node{w: w, name: name, disks: map[int32]*disk{}}
		w.nodes = append(w.nodes, n)
		w.producers[n.id()] = &identity{}
		n.boot()
	}
	return w
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\n%s", append(args, strings.Join(w.trace[max(0, len(w.trace)-80):], "\n"))...)
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// put delivers an event to the node's loop.
func (n *node) put(e broker.Event) {
	n.w.say("    %s <- %T%+v", n.name, e, e)
	n.slot.Inbox.Put(e)
}

// asks notes a call of a port.
func (n *node) asks(format string, args ...any) {
	n.w.say("    "+n.name+" -> "+format, args...)
}

// chance is true now and then, and never when the world is calm.
func (w *world) chance(what string, oneIn int) bool {
	return !w.calm && rapid.IntRange(1, oneIn).Draw(w.t, what) == oneIn
}

// isOpen says that a transaction has changelog records, or pending offsets, of a partition.
func (w *world) isOpen(p int32, offsets bool) bool {
	for _, i := range w.producers {
		if i.txn == nil || i.txn.outcome != open {
			continue
		}
		if _, ok := i.txn.pending[in(p)]; offsets && ok {
			return true
		}
		if !offsets && slices.ContainsFunc(w.changelog[p], func(e entry) bool { return e.txn == i.txn }) {
			return true
		}
	}
	return false
}

// fold is what the words before a position amount to.
func (w *world) fold(p int32, before int64) map[string]uint64 {
	counts := map[string]uint64{}
	for _, r := range w.inputs[in(p)] {
		if r.Offset < before {
			counts[string(r.Key)]++
		}
	}
	return counts
}

// holds compares state with its input: exactly, or, at least once, with nothing missing that was not overtaken.
func (w *world) holds(what string, state map[string]uint64, p int32, before int64) {
	w.t.Helper()
	want := w.fold(p, before)
	if w.exactlyOnce {
		if diff := cmp.Diff(want, state); diff != "" {
			w.fatal("%s of partition %d at %d: -want +got\n%s", what, p, before, diff)
		}
		return
	}
	for word, n := range want {
		if state[word] < n && !w.overtaken[p][word] {
			w.fatal("%s of partition %d at %d: %d of %s, want at least %d", what, p, before, state[word], word, n)
		}
	}
}

func counts(rows map[string]tasktest.Row) map[string]uint64 {
	m := map[string]uint64{}
	for word, row := range rows {
		m[word] = binary.BigEndian.Uint64(row.Value)
	}
	return m
}

// check is what must be true at the end, when everything was processed and committed.
func (w *world) check() {
	for p := range int32(partitions) {
		seen := map[string]int{}
		for _, e := range w.outputs[p] {
			if e.txn.outcome == open {
				w.fatal("an output of partition %d is in a transaction that is open for ever", p)
			}
			if from, _ := e.Headers.Last("from"); e.txn.outcome == committed {
				seen[string(from)]++
			}
		}
		for i, r := range w.inputs[in(p)] {
			n := seen[fmt.Sprintf("in@%d", r.Offset)]
			if n == 0 || w.exactlyOnce && n != 1 {
				w.fatal("record %d of partition %d is in the committed outputs %d times", i, p, n)
			}
		}
		w.holds("changelog", w.restored(p), p, end)
		owned := 0
		for _, n := range w.nodes {
			if d := n.disks[p]; d.open {
				owned++
				w.holds("state", counts(d.rows.Stores[0]), p, end)
			}
		}
		if owned != 1 {
			w.fatal("partition %d has %d owners", p, owned)
		}
	}
	if w.exactlyOnce {
		w.checkCounts()
	}
}

// restored is the fold of a changelog.
func (w *world) restored(p int32) map[string]uint64 {
	m := map[string]uint64{}
	for _, e := range w.changelog[p] {
		if e.txn.outcome == committed {
			m[string(e.Key)] = binary.BigEndian.Uint64(e.Value)
		}
	}
	return m
}

// checkCounts: exactly once, each output carries the count that a single uninterrupted run would have given it.
func (w *world) checkCounts() {
	for p, log := range w.outputs {
		n := map[string]uint64{}
		for _, e := range log {
			if e.txn.outcome != committed {
				continue
			}
			n[string(e.Key)]++
			if got := binary.BigEndian.Uint64(e.Value); got != n[string(e.Key)] {
				w.fatal("partition %d: output %d of %s says %d", p, n[string(e.Key)], e.Key, got)
			}
		}
	}
}

// done says that everything is committed, applied and settled.
func (w *world) done() bool {
	for p := range int32(partitions) {
		if w.committed[in(p)].At != end {
			return false
		}
	}
	for _, n := range w.nodes {
		if n.loop == nil || n.loop.State() != lifecycle.ThreadRunning || n.commit != nil || n.flush != nil || len(n.aborts) > 0 {
			return false
		}
		for _, d := range n.disks {
			if len(d.jobs) > 0 {
				return false
			}
		}
	}
	return !w.rebalancing
}

// finish lets the world run without failures until all is done: a loop that waits for something that never comes is
// found here.
func (w *world) finish() {
	w.calm = true
	for quiet, round := 0, 0; round < 600; round++ {
		if quiet++; !w.done() {
			quiet = 0
		}
		if quiet == 3 { // what was on its way to a loop has arrived
			w.check()
			return
		}
		w.now = w.now.Add(20 * time.Millisecond)
		for _, n := range w.nodes {
			n.everything()
		}
	}
	w.fatal("stuck: %s", w)
}

// String says where everybody is.
func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d, rebalancing %t, committed %v\n", w.gen, w.rebalancing, w.committed)
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "%s: up %t, member %+v, fetcher %v, reads %v, flush %v, commit %+v, aborts %v, fences %v, producer epoch %d of %+v\n", n.name, n.loop != nil, n.member, n.reading, n.reads, n.flush, n.commit, n.aborts, n.fences, n.era, w.producers[n.id()])
		if n.loop != nil {
			fmt.Fprintf(&b, "   %s\n", n.loop.State())
		}
		for _, p := range slices.Sorted(maps.Keys(n.disks)) {
			fmt.Fprintf(&b, "   disk %d: open %t, jobs %v\n", p, n.disks[p].open, n.disks[p].jobs)
		}
	}
	return b.String()
}

var errInjected = errors.New("injected")

// expected says that a loop may end with an error in this world.
func expected(err error) bool {
	return errors.Is(err, errInjected) || strings.Contains(err.Error(), "used by two producers")
}

// node is a process with one thread.
type node struct {
	w    *world
	name string
	slot *thread.Slot
	loop *thread.Loop
	// boots numbers processes, epoch incarnations.
	boots, epoch int
	// failIn is after how many records a processor fails; 0 for never.
	failIn   int
	stopping bool

	member
	producer
	reading map[record.TopicPartition]int64
	disks   map[int32]*disk
	// held are the partitions that the incarnation has asked for and not given up.
	held map[int32]bool
}

func (n *node) id() string { return "app-" + n.name }

// boot starts the process: a new slot, and the first incarnation. What is on disk is what was flushed.
func (n *node) boot() {
	n.boots, n.epoch, n.stopping = n.boots+1, 0, false
	n.slot = thread.NewSlot("thread-" + n.name)
	n.slot.Group, n.slot.Fetcher, n.slot.Producer = (*groupPort)(n), (*fetcherPort)(n), (*producerPort)(n)
	n.slot.Member.Group = "app"
	if n.w.exactlyOnce {
		n.slot.TransactionalID = n.id()
	}
	n.producer = producer{era: -1, takeOver: true}
	n.reading = map[record.TopicPartition]int64{}
	for p := range int32(partitions) {
		d := &disk{rows: tasktest.NewState(1)}
		if old := n.disks[p]; old != nil {
			d.saved, d.savedNext = old.saved, old.savedNext
		}
		d.load()
		n.disks[p] = d
	}
	n.begin()
	n.enter()
}

// begin starts the next incarnation on the slot.
func (n *node) begin() {
	n.epoch++
	n.held = map[int32]bool{}
	cfg := config(n.slot, []string{"in"}, topology.Fail, func(*record.Raw) error {
		if n.failIn--; n.failIn == 0 {
			return errInjected
		}
		return nil
	})
	cfg.Epoch = uint64(n.epoch)
	cfg.Positions, cfg.States, cfg.Watcher = (*positionsPort)(n), (*statesPort)(n), (*watcherPort)(n)
	n.w.say("%s: incarnation %d of process %d", n.name, n.epoch, n.boots)
	n.loop = thread.NewLoop(cfg)
	n.loop.Start(n.w.now)
}

// turn is one step of the loop, and what its actor would do about the result.
func (n *node) turn() {
	if n.loop == nil {
		return
	}
	n.w.say("%s: step", n.name)
	_, err := n.loop.Step(n.w.now)
	if err != nil {
		n.w.say("    %s: %v", n.name, err)
	}
	switch {
	case err == nil:
	case errors.Is(err, thread.ErrDone):
		n.ended()
	case expected(err):
		n.loop.Fail(n.w.now, err)
		n.loop = nil
		n.failIn = 0
	default:
		n.w.fatal("%s: %v", n.name, err)
	}
}

// ended: after a clean stop nothing is open, nothing is under way, and the member leaves.
func (n *node) ended() {
	for p, d := range n.disks {
		if d.open || len(d.jobs) > 0 {
			n.w.fatal("%s has stopped with partition %d open", n.name, p)
		}
	}
	if n.commit != nil || n.flush != nil {
		n.w.fatal("%s has stopped with a commit under way", n.name)
	}
	n.loop = nil
	n.member.leave()
	n.w.rebalancing = true
}

// kill is kill -9.
func (n *node) kill() {
	n.w.say("%s: killed", n.name)
	n.loop, n.failIn = nil, 0
	n.down = true
	if c := n.commit; c != nil && c.phase == offsetsSent && n.w.chance("the end was sent", 2) {
		n.endTransaction(c)
	}
}

// everything answers what waits, and lets the loop turn. While the world is not calm, now and then something is late.
func (n *node) everything() {
	if n.loop == nil {
		n.revive()
	}
	n.heartbeat()
	n.w.complete()
	if !n.w.chance("reads are late", 6) {
		n.answerReads()
	}
	if !n.w.chance("the producer is late", 3) {
		n.answerProducer()
	}
	slow := n.w.chance("the disk is slow", 3)
	for p := range int32(partitions) {
		for !slow && len(n.disks[p].jobs) > 0 && n.work(p) {
		}
		n.fetch(p)
	}
	n.turn()
}

// revive starts what is down: the process, or the next incarnation.
func (n *node) revive() {
	switch {
	case n.loop != nil:
	case n.down || n.stopping:
		n.boot()
	default:
		n.begin()
	}
}
