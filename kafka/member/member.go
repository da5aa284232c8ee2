package member

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Config is what a Machine needs to know.
type Config struct {
	// Session is the session time-out. It tells a second fence that is a failure from one that is long after the first;
	// whether this member's session has run out is the coordinator's to say, not this clock's.
	Session time.Duration
	// Static says that the member has an instance id.
	Static bool
	// Error classifies a code.
	Error func(broker.Op, int16) *broker.Error
}

// fenceSessions is how many session time-outs must lie between two fences for the second not to be a failure: two live
// processes with one instance id fence each other within a heartbeat interval, a replaced process is fenced once.
const fenceSessions = 10

// Machine is one member. Its zero value is not usable; see New.
type Machine struct {
	cfg     Config
	phase   Phase
	id      string
	gen     int32
	owned   []record.TopicPartition // what is being given up included
	revoked []record.TopicPartition
	seq     uint64 // of the Join that counts
	attempt int
	beating bool
	fenced  time.Time
	// fresh says that the id was asked for anew, so that a static member may have been handed an old assignment.
	fresh, leader bool
	again         bool // a rebalance was asked for while one was under way
	commits       map[uint64]*pendingCommit
	reads         map[uint64][]record.TopicPartition
	effects       []Effect
	now           time.Time
}

// New returns a member that has not joined.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, gen: -1, commits: map[uint64]*pendingCommit{}, reads: map[uint64][]record.TopicPartition{}}
}

// Phase is where the member stands.
func (m *Machine) Phase() Phase { return m.phase }

// ID is what the coordinator calls this member; empty before the first join.
func (m *Machine) ID() string { return m.id }

// Generation is the last that this member joined; -1 if none.
func (m *Machine) Generation() int32 { return m.gen }

func (m *Machine) begin(now time.Time) { m.now, m.effects = now, nil }

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) deliver(e broker.Event) { m.do(Deliver{e}) }

func (m *Machine) over() bool { return m.phase == Failed || m.phase == Left }

func (m *Machine) settled() bool { return m.phase == Stable || m.phase == Revoking }

// become is the only writer of phase. A move that the table does not hold is a bug of this package.
func (m *Machine) become(to Phase) {
	from := m.phase
	if !slices.ContainsFunc(phaseMoves, func(p phaseMove) bool { return p.from == from && p.to == to }) {
		panic("member: invalid transition [" + from.String() + " -> " + to.String() + "]")
	}
	m.phase = to
}

// Start joins.
func (m *Machine) Start(now time.Time) []Effect {
	m.begin(now)
	m.join("start")
	return m.effects
}

func (m *Machine) join(reason string) {
	m.become(Joining)
	m.again, m.fresh = false, m.fresh || m.id == ""
	m.seq++
	m.do(Join{m.seq, m.id, slices.Clone(m.owned), m.gen, m.attempt, reason})
}

// Rejoin asks for a rebalance. One that is under way is let through first, since its join may have gone out already.
func (m *Machine) Rejoin(now time.Time, reason string) []Effect {
	m.begin(now)
	m.rebalance(reason)
	return m.effects
}

func (m *Machine) rebalance(reason string) {
	switch m.phase {
	case Stable:
		m.deliver(broker.Rejoining{Reason: reason})
		m.attempt = 0
		m.join(reason)
	case Joining, Syncing:
		m.again = true
	case Revoking, Failed, Left: // giving up what is revoked ends in a join anyway
	}
}

// Joined is the answer to Join.
func (m *Machine) Joined(now time.Time, a JoinAnswer) []Effect {
	m.begin(now)
	if m.phase != Joining || a.Seq != m.seq {
		return nil
	}
	switch react(broker.OpJoinGroup, a.Code) {
	case goOn:
		m.id, m.gen, m.leader, m.attempt = a.MemberID, a.Generation, a.Leader, 0
		m.become(Syncing)
		m.do(Sync{a.Generation, a.MemberID, a.Leader})
	case rename:
		m.id = a.MemberID
		m.join("with the id that was handed out")
	case again:
		m.attempt++
		m.join("try again")
	default:
		m.giveUp(broker.OpJoinGroup, a.Code)
	}
	return m.effects
}

// Synced is the answer to Sync.
func (m *Machine) Synced(now time.Time, a SyncAnswer) []Effect {
	m.begin(now)
	if m.phase != Syncing || a.Generation != m.gen {
		return nil
	}
	switch react(broker.OpSyncGroup, a.Code) {
	case goOn:
		m.assign(a)
	case rejoin:
		m.attempt++
		m.join("the sync failed")
	default:
		m.giveUp(broker.OpSyncGroup, a.Code)
	}
	return m.effects
}

func minus(a, b []record.TopicPartition) (d []record.TopicPartition) {
	for _, tp := range a {
		if !slices.Contains(b, tp) {
			d = append(d, tp)
		}
	}
	return d
}

func (m *Machine) assign(a SyncAnswer) {
	added := minus(a.Partitions, m.owned)
	m.revoked = minus(m.owned, a.Partitions)
	m.owned = slices.Concat(a.Partitions, m.revoked)
	stale := m.cfg.Static && m.fresh && !m.leader && a.Stale
	m.fresh = false
	m.deliver(broker.Assigned{Generation: m.gen, MemberID: m.id, Partitions: slices.Clone(a.Partitions), Added: added, UserData: a.UserData})
	if len(m.revoked) == 0 {
		m.become(Stable)
	} else {
		m.become(Revoking)
		m.deliver(broker.Revoking{Generation: m.gen, Partitions: slices.Clone(m.revoked)})
	}
	m.resend()
	switch {
	case stale:
		m.rebalance("a static member came back; the leader does not know")
	case m.again:
		m.rebalance("asked for during the last rebalance")
	}
}

// Released says that the revoked partitions of a generation were given up.
func (m *Machine) Released(now time.Time, generation int32) []Effect {
	m.begin(now)
	if m.phase != Revoking || generation != m.gen {
		return nil
	}
	m.owned = minus(m.owned, m.revoked)
	m.revoked, m.attempt = nil, 0
	m.join("revoked partitions are released")
	return m.effects
}

// Tick sends a heartbeat if none is under way. Heartbeats go on while joining: a join can be pending for the rebalance
// time-out, and without them the session would run out meanwhile.
//
// Silence is not a loss, however long it lasts. The easy version gives everything up once a session time-out has passed
// without proof of membership, since somebody else may own the partitions by then. But a coordinator that dies takes 9 to
// 11 s to be replaced, a single broker 14 to 17 s to come back, and then it counts sessions from zero: the next heartbeat
// says 0 in the same generation, and what was given up would have been processed again for nothing, every time. So only
// an answer is a loss (22, 25, 82), and the group's clock is the only one. What this costs: a member that is cut off from
// its coordinator alone goes on with partitions that another may own. It cannot commit them, since the coordinator knows
// generation and member id of every commit, a transaction's offsets included, and refuses them; so exactly-once stays
// exact, and under at-least-once there may be outputs of both until the coordinator is heard again. Kafka's own consumer
// does the same.
func (m *Machine) Tick(now time.Time) []Effect {
	m.begin(now)
	if m.over() || m.gen < 0 {
		return nil
	}
	if !m.beating {
		m.beating = true
		m.do(Heartbeat{m.gen, m.id})
	}
	return m.effects
}

// Beat is the answer to Heartbeat. One that was sent in another generation says nothing about this one, and while a join
// is pending none does: the join itself is answered if this member was thrown out.
func (m *Machine) Beat(now time.Time, generation int32, code int16) []Effect {
	m.begin(now)
	m.beating = false
	if generation != m.gen || !m.settled() {
		return nil
	}
	switch react(broker.OpHeartbeat, code) {
	case goOn, nothing:
	case rejoin:
		m.rebalance("the group is rebalancing")
	default:
		m.giveUp(broker.OpHeartbeat, code)
	}
	return m.effects
}

// giveUp is for codes that end the membership, or the member.
func (m *Machine) giveUp(op broker.Op, code int16) {
	cause := m.cfg.Error(op, code)
	switch react(op, code) {
	case lose:
		m.lost(cause)
	case fence:
		m.wasFenced(cause)
	default:
		m.failed(cause)
	}
}

// lost gives everything up without a word to the group, which has thrown this member out, and joins anew.
func (m *Machine) lost(cause *broker.Error) {
	migrated := *cause
	migrated.Class = broker.Migrated
	m.answerCommits(&migrated)
	was, member := m.owned, m.gen >= 0
	m.owned, m.revoked, m.id, m.gen, m.beating = nil, nil, "", -1, false
	if member {
		m.deliver(broker.Lost{Partitions: was, Cause: &migrated})
	}
	m.attempt++
	m.join("lost")
}

// wasFenced: another process is under this instance id. Once it may be a replacement that was wanted; twice in short
// order it is a mistake in the configuration, and the two would fence each other for ever.
func (m *Machine) wasFenced(cause *broker.Error) {
	if !m.fenced.IsZero() && m.now.Sub(m.fenced) < fenceSessions*m.cfg.Session {
		m.failed(cause)
		return
	}
	m.fenced = m.now
	m.lost(cause)
}

func (m *Machine) failed(cause *broker.Error) {
	fatal := *cause
	fatal.Class = broker.Fatal
	m.answerCommits(&fatal)
	m.answerReads(&fatal)
	m.become(Failed)
	m.deliver(broker.GroupFailed{Err: &fatal})
}

// Leave ends the membership; what is pending is answered.
func (m *Machine) Leave(now time.Time) []Effect {
	m.begin(now)
	if m.phase == Left {
		return nil
	}
	m.answerCommits(m.cfg.Error(broker.OpOffsetCommit, 25))
	m.answerReads(m.cfg.Error(broker.OpOffsetFetch, 25))
	m.become(Left)
	return m.effects
}
