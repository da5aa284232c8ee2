package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// kind is a kind of fault; 0 is none.
type kind uint8

const (
	kindLost kind = iota + 1
	kindReplyLost
	kindLate
	kindSlow
	kindCut
	kindCrash
	kindPower
	kindPause
	kindStall
	kindClock
	kindGroupMove
	kindOfficeMove
	kindLeaderMove
	kindBroker
	kindDiskError
	kindDiskFull
	kindAdded
	kindRemoved
	kindRejoin
	kindTimeout
	kindRace
	kindUserError
	kindUserPanic
	kindDiskSlow
	kindDamage
	kindCompacted
	kindFlood
)

// kindInfo is a row of the table of faults.
type kindInfo struct {
	name, what string
	// exactlyOnce: at least once there is nothing that it could hit, or nothing is promised after it.
	exactlyOnce bool
	// plan fills in what the kind needs; strike carries it out, or lets it wait for its moment if that is nil.
	plan   func(rng *rand.Rand, s *scenario, f *fault)
	strike func(w *world, n *node, f *fault)
}

var kinds [kindFlood]kindInfo

func init() {
	kinds = [kindFlood]kindInfo{
		kindLost - 1:       {"request-lost", "a request does not arrive, and nobody says so at once", false, planRequest, nil},
		kindReplyLost - 1:  {"reply-lost", "a request is carried out, and its answer does not arrive", false, planRequest, nil},
		kindLate - 1:       {"late-request", "a request is carried out long after its sender has given it up", false, planRequest, nil},
		kindSlow - 1:       {"slow-request", "a request, and what is behind it, takes up to 4 s", false, planRequest, nil},
		kindCut - 1:        {"connections-cut", "everything under way fails at once; some of it is carried out all the same", false, planNothing, strikeCut},
		kindCrash - 1:      {"crash", "the process ends before or after one step; the disk keeps what was synced", false, planCrash, nil},
		kindPower - 1:      {"crash-unsynced", "the same, and the disk keeps what was not synced too", false, planCrash, nil},
		kindPause - 1:      {"pause-session", "the process stands still for longer than its session, and goes on", true, planPause, strikePause},
		kindStall - 1:      {"pause", "the process stands still for up to 5 s", false, planStall, strikePause},
		kindClock - 1:      {"clock-jump", "a clock jumps: ahead by up to an hour, or back", false, planClock, strikeClock},
		kindGroupMove - 1:  {"group-coordinator-moves", "the group has another coordinator", false, planNothing, strikeGroupMove},
		kindOfficeMove - 1: {"transaction-coordinator-moves", "transactional ids have another coordinator", true, planNothing, strikeOfficeMove},
		kindLeaderMove - 1: {"leader-moves", "a partition has another leader", false, planNothing, strikeLeaderMove},
		kindBroker - 1:     {"broker-restarts", "a broker dies; if it stays away for 9 s others take over", false, planBroker, strikeBroker},
		kindDiskError - 1:  {"disk-error", "writes of one flush, open or close fail", false, planNothing, strikeDisk},
		kindDiskFull - 1:   {"disk-full", "the same with no space left", false, planNothing, strikeDisk},
		kindAdded - 1:      {"member-added", "another node joins", false, planNothing, strikeAdded},
		kindRemoved - 1:    {"member-removed", "a node is shut down, and comes back later", false, planRemoved, strikeRemoved},
		kindRejoin - 1:     {"rebalance", "a member asks for a rebalance", false, planNothing, strikeRejoin},
		kindTimeout - 1:    {"transaction-timeout", "the coordinator aborts an open transaction", true, planNothing, nil},
		kindRace - 1:       {"commit-races-abort", "a commit does not arrive, and the coordinator aborts meanwhile; or it does, and its answer does not", true, planRace, nil},
		kindUserError - 1:  {"user-error", "user code returns an error", false, planUser, strikeUser},
		kindUserPanic - 1:  {"user-panic", "user code panics", false, planUser, strikeUser},
		kindDiskSlow - 1:   {"disk-slow", "a job of a task's state takes 1 to 60 s", false, planSlow, strikeSlow},
		kindDamage - 1:     {"disk-damaged", "the process ends, and no table of one task's state can be read any more", false, planNothing, strikeDamage},
		kindCompacted - 1:  {"changelogs-compacted", "changelogs lose what is superseded, and what was aborted", false, planNothing, strikeCompacted},
		kindFlood - 1:      {"query-flood", "a store gets hundreds of questions at once, more than may wait for it", false, planNothing, strikeFlood},
	}
}

func (k kind) String() string {
	if k == 0 || int(k) > len(kinds) {
		return "none"
	}
	return kinds[k-1].name
}

func parseKind(name string) (kind, error) {
	for i, k := range kinds {
		if k.name == name {
			return kind(i + 1), nil
		}
	}
	return 0, fmt.Errorf("there is no kind of fault called %q", name)
}

// join is what parseKind reads, one after the other.
func join(all []kind) string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.String()
	}
	return strings.Join(names, ",")
}

// Points at which a process may crash: each request, and each job of a task's state.
const (
	pointOpen   = "open"
	pointReplay = "replay"
	pointApply  = "apply"
	pointClose  = "close"
	pointFlush  = "flush"
)

const (
	before = false
	behind = true
)

// commitPoints are the steps of a commit.
func commitPoints(exactlyOnce bool) []string {
	if exactlyOnce {
		return []string{string(broker.OpAddPartitions), string(broker.OpProduce), string(broker.OpAddOffsets), string(broker.OpTxnOffsetCommit), string(broker.OpEndTxn), pointApply}
	}
	return []string{string(broker.OpProduce), string(broker.OpOffsetCommit), pointApply}
}

// requestPoints are the requests of a process.
func requestPoints(exactlyOnce bool) []string {
	all := []string{string(broker.OpJoinGroup), string(broker.OpSyncGroup), string(broker.OpHeartbeat), string(broker.OpOffsetFetch), string(broker.OpFetch), string(broker.OpInitProducerID)}
	return append(all, slices.DeleteFunc(commitPoints(exactlyOnce), func(p string) bool { return p == pointApply })...)
}

// points are all at which a process may crash.
func points(exactlyOnce bool) []string {
	all := append(requestPoints(exactlyOnce), string(broker.OpLeaveGroup), pointOpen, pointApply, pointClose, pointFlush)
	if !exactlyOnce {
		all = append(all, pointReplay)
	}
	return all
}

func planNothing(*rand.Rand, *scenario, *fault) {}

func planRequest(rng *rand.Rand, s *scenario, f *fault) {
	all := requestPoints(s.ExactlyOnce)
	f.Point, f.N = all[rng.IntN(len(all))], 1+rng.IntN(4)
	if commit := commitPoints(s.ExactlyOnce); rng.IntN(2) == 0 {
		f.Point = commit[rng.IntN(len(commit)-1)]
	}
}

func planCrash(rng *rand.Rand, s *scenario, f *fault) {
	all := points(s.ExactlyOnce)
	f.Point, f.Behind, f.N = all[rng.IntN(len(all))], rng.IntN(2) == 0, 1
	if slices.Contains(commitPoints(s.ExactlyOnce), f.Point) {
		f.N += rng.IntN(3)
	}
}

func planPause(rng *rand.Rand, _ *scenario, f *fault) {
	f.For = sessionTimeout + time.Duration(1+rng.IntN(50))*time.Second
}

func planStall(rng *rand.Rand, _ *scenario, f *fault) {
	f.For = time.Duration(50+rng.IntN(5000)) * time.Millisecond
}

func planClock(rng *rand.Rand, _ *scenario, f *fault) {
	f.For = time.Duration(rng.IntN(3600_000)) * time.Millisecond
	f.N = rng.IntN(3)
}

func planBroker(rng *rand.Rand, s *scenario, f *fault) {
	f.Node = 1 + rng.IntN(serverCount)
	f.For = time.Duration(300+rng.IntN(15000)) * time.Millisecond
}

func planRemoved(rng *rand.Rand, _ *scenario, f *fault) {
	f.For = time.Duration(500+rng.IntN(14000)) * time.Millisecond
}

func planRace(rng *rand.Rand, _ *scenario, f *fault) {
	f.Point, f.N, f.Behind = string(broker.OpEndTxn), 1+rng.IntN(4), rng.IntN(2) == 0
}

func planUser(rng *rand.Rand, _ *scenario, f *fault) { f.N = 1 + rng.IntN(12) }

// begin is when the time of a fault has come.
func (w *world) begin(f *fault) {
	if f.Node > len(w.nodes) && f.Kind != kindBroker {
		return
	}
	w.say("fault: %s %s", f.Kind, f.Point)
	w.tally.Planned[f.Kind]++
	if f.Kind == kindTimeout {
		w.strikeTimeout(f, 100)
		return
	}
	if strike := kinds[f.Kind-1].strike; strike != nil {
		var n *node
		if f.Node <= len(w.nodes) {
			n = w.nodes[f.Node-1]
		}
		strike(w, n, f)
		return
	}
	w.armed = append(w.armed, f)
}

// fired counts a fault that has had its effect.
func (w *world) fired(f *fault) {
	w.say("fired: %s", f.Kind)
	w.tally.Fired[f.Kind]++
}

// meets finds the armed fault that a step of a node meets, if its turn has come.
func (w *world) meets(n *node, point string, at bool, of ...kind) *fault {
	for i, f := range w.armed {
		if f.Node != n.id || f.Point != point || !slices.Contains(of, f.Kind) || (f.Kind == kindCrash || f.Kind == kindPower) && f.Behind != at {
			continue
		}
		if f.N--; f.N > 0 {
			continue
		}
		w.armed = slices.Delete(w.armed, i, i+1)
		w.fired(f)
		return f
	}
	return nil
}

// boundary is a place between two effects: the process may end here. It says that it is gone.
func (p *process) boundary(point string, at bool) (gone bool) {
	if p.dead {
		return true
	}
	f := p.world.meets(p.node, point, at, kindCrash, kindPower)
	if f == nil {
		return false
	}
	where := point + "/before"
	if at {
		where = point + "/after"
	}
	p.world.tally.Points[where]++
	if slices.Contains(commitPoints(p.exactlyOnce()), point) {
		p.world.tally.CommitCrashes++
	}
	p.node.crash(f.Kind == kindPower)
	return true
}

// fate is what becomes of the next request.
func (n *node) fate(op broker.Op) *fault {
	return n.world.meets(n, string(op), before, kindLost, kindReplyLost, kindLate, kindSlow, kindRace)
}

// race lets a commit be decided by somebody else before its sender can ask again: the coordinator's time-out, or a member
// that takes the id over. Asking again then tells nothing, whatever became of the commit. When that is repeated, and meets
// this fault too, somebody has been there already: an epoch that is raised twice would fence its owner.
func (p *process) race() {
	w, id := p.world, p.slot.TransactionalID
	t := w.officeOf(id).ids[id]
	if t == nil || !t.office.on.up || t.epoch != p.producer.ending {
		return
	}
	w.say("%s is decided by somebody else", id)
	if t.isOpen() {
		t.abandon()
		return
	}
	t.epoch, t.last = t.epoch+1, t.epoch
}

func strikeCut(w *world, n *node, f *fault) {
	hit := false
	for _, o := range slices.Clone(w.flights) {
		if o.proc.node == n && !o.done {
			o.ghost = w.chance(2)
			o.cut()
			hit = true
		}
	}
	if hit {
		w.fired(f)
	}
}

func strikePause(w *world, n *node, f *fault) {
	if n.present {
		n.sleep(f.For)
		w.fired(f)
	}
}

// strikeClock moves the clock of a machine. What measures durations in the product reads a clock that does not jump back,
// so that one only stumbles here; the stores' clock is a wall clock.
func strikeClock(w *world, n *node, f *fault) {
	switch f.N {
	case 0:
		n.skew += f.For
	case 1:
		n.skew -= min(n.skew, 3*time.Second)
		n.wall -= f.For
	default:
		n.wall += f.For
	}
	w.fired(f)
}

func strikeGroupMove(w *world, _ *node, f *fault) {
	if to := w.successors(w.group.on); len(to) > 0 && w.group.on.up {
		w.group.move(pick(w, to))
		w.fired(f)
	}
}

func strikeOfficeMove(w *world, _ *node, f *fault) {
	for _, o := range w.offices {
		if to := w.successors(o.on); len(to) > 0 && o.on.up {
			o.move(pick(w, to))
		}
	}
	w.fired(f)
}

func strikeLeaderMove(w *world, _ *node, f *fault) {
	l := pick(w, w.order)
	if to := w.successors(l.leader); len(to) > 0 && l.leader.up {
		l.move(pick(w, to))
		w.fired(f)
	}
}

func strikeBroker(w *world, _ *node, f *fault) {
	s := w.servers[f.Node-1]
	if !s.up || len(w.successors(s)) < serverCount-1 {
		return // without a quorum nothing is promised
	}
	s.stop()
	w.after(f.For, s.start)
	boots := s.boots
	w.after(w.between(moveLow, moveHigh), func() {
		if s.boots == boots && !s.up {
			w.handOver(s)
		}
	})
	w.fired(f)
}

func strikeDisk(_ *world, n *node, f *fault) {
	n.disk.broken = f
	// It waits for a write of a task's state; the flush that is due is one.
	if n.present {
		n.proc.flushAll()
	}
}

func strikeAdded(w *world, _ *node, f *fault) {
	n := newNode(w, len(w.nodes)+1)
	w.nodes = append(w.nodes, n)
	n.boot()
	w.fired(f)
}

func strikeRemoved(w *world, n *node, f *fault) {
	if n.present && !n.leaving && len(w.present()) > 1 {
		n.stop(f.For)
		w.fired(f)
	}
}

func strikeRejoin(w *world, n *node, f *fault) {
	if n.present {
		n.proc.deliver(func() { n.proc.membership.Rejoin("asked for") })
		w.fired(f)
	}
}

func strikeUser(_ *world, n *node, f *fault) { n.user = f }

// strikeTimeout waits for a transaction that is open, so that it hits one.
func (w *world) strikeTimeout(f *fault, tries int) {
	for _, o := range w.offices {
		for _, n := range w.nodes {
			id := appID + "-" + n.processID + "-" + threadName
			if t := o.ids[id]; t != nil && t.isOpen() && o.on.up {
				w.fired(f)
				t.expire(t.began)
				return
			}
		}
	}
	if tries > 0 && !w.calm {
		w.after(w.between(time.Millisecond, 100*time.Millisecond), func() { w.strikeTimeout(f, tries-1) })
	}
}

// flushAll flushes the tasks that have stores.
func (p *process) flushAll() {
	for i := range int32(p.world.plan.Partitions) {
		id := record.TaskID{SubTopology: countTask, Partition: i}
		if k := p.states.keepers[id]; k != nil && k.state != nil {
			p.states.flush(id)
		}
	}
}
