// Package member is the group membership as a pure state machine: (state, event, now) to (state, effects). It sends
// nothing and waits for nothing; the kafka room carries its effects out.
//
// The protocol is the cooperative one: partitions are kept while joining; what a new assignment takes away is announced,
// given up by the owner of the machine, and only then does the member join again without it.
package member

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Phase is where the member stands.
type Phase uint8

const (
	// Joining: a JoinGroup is on its way or about to be. Heartbeats are not needed; commits of the last generation are
	// still taken by the coordinator.
	Joining Phase = iota
	// Syncing: the generation is new and the assignment is not known. Commits wait.
	Syncing
	// Stable: the assignment is known and all of it is owned.
	Stable
	// Revoking: as Stable, and partitions of the last generation are being given up.
	Revoking
	// Failed: the group does not take this member. Final.
	Failed
	// Left: closed. Final.
	Left
)

func (p Phase) String() string {
	return [...]string{"joining", "syncing", "stable", "revoking", "failed", "left"}[p]
}

// Transport stands for a request without an answer.
const Transport int16 = -2

// Effects, to be carried out in order.
type (
	// Join asks for a JoinGroup after a delay.
	Join struct {
		MemberID   string
		Owned      []record.TopicPartition
		Generation int32
		Attempt    int
	}
	// Sync asks for a SyncGroup; a leader assigns first.
	Sync struct {
		Generation int32
		MemberID   string
		Leader     bool
	}
	// Heartbeat asks for a Heartbeat.
	Heartbeat struct {
		Generation int32
		MemberID   string
	}
	// Commit asks for an OffsetCommit, after a back-off if Attempt is above 0.
	Commit struct {
		Token      uint64
		Offsets    broker.Offsets
		Generation int32
		MemberID   string
		Attempt    int
	}
	// Deliver hands an event to the owner.
	Deliver struct{ Event broker.Event }
)

// Effect is one of the types above.
type Effect any

// Machine is one member. Its zero value is not usable; see New.
type Machine struct {
	session   time.Duration
	phase     Phase
	id        string
	gen       int32
	owned     []record.TopicPartition
	revoked   []record.TopicPartition
	attempt   int
	fenced    int
	lastBeat  time.Time
	beating   bool
	pending   map[uint64]*pendingCommit
	again     bool // a rejoin was asked for while one was impossible
	effects   []Effect
	now       time.Time
	makeError func(broker.Op, int16) *broker.Error
}

type pendingCommit struct {
	token   uint64
	offsets broker.Offsets
	gen     int32
	held    bool
	attempt int
}

// New returns a member that has not joined. makeError classifies a code.
func New(session time.Duration, makeError func(broker.Op, int16) *broker.Error) *Machine {
	return &Machine{session: session, gen: -1, pending: map[uint64]*pendingCommit{}, makeError: makeError}
}

// Phase is where the member stands; ID and Generation are what it sends.
func (m *Machine) Phase() Phase      { return m.phase }
func (m *Machine) ID() string        { return m.id }
func (m *Machine) Generation() int32 { return m.gen }

func (m *Machine) begin(now time.Time) { m.now, m.effects = now, nil }

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) deliver(e broker.Event) { m.do(Deliver{e}) }

func (m *Machine) over() bool { return m.phase == Failed || m.phase == Left }

// Start joins.
func (m *Machine) Start(now time.Time) []Effect {
	m.begin(now)
	m.join()
	return m.effects
}

func (m *Machine) join() {
	m.phase, m.again = Joining, false
	m.do(Join{MemberID: m.id, Owned: slices.Clone(m.owned), Generation: m.gen, Attempt: m.attempt})
}

// rejoin starts a rebalance, now or when the one that is under way is through.
func (m *Machine) rejoin(reason string) {
	if m.phase != Stable {
		m.again = m.phase != Revoking // giving up what is revoked ends in a join anyway
		return
	}
	m.deliver(broker.Rejoining{Reason: reason})
	m.attempt = 0
	m.join()
}

// Rejoin asks for a rebalance.
func (m *Machine) Rejoin(now time.Time, reason string) []Effect {
	m.begin(now)
	if !m.over() {
		m.rejoin(reason)
	}
	return m.effects
}

// Joined is the answer to Join.
func (m *Machine) Joined(now time.Time, code int16, generation int32, id string, leader bool) []Effect {
	m.begin(now)
	if m.phase != Joining {
		return nil
	}
	switch code {
	case 0:
		m.id, m.gen, m.phase, m.attempt = id, generation, Syncing, 0
		m.do(Sync{generation, id, leader})
	case 79:
		m.id = id
		m.join()
	case 25, 22:
		m.lose(m.makeError(broker.OpJoinGroup, code))
	case 82:
		m.fence(m.makeError(broker.OpJoinGroup, code))
	case 14, 15, 16, 27, Transport:
		m.attempt++
		m.join()
	default:
		m.fail(m.makeError(broker.OpJoinGroup, code))
	}
	return m.effects
}

// Synced is the answer to Sync.
func (m *Machine) Synced(now time.Time, generation int32, code int16, assigned []record.TopicPartition, userData []byte) []Effect {
	m.begin(now)
	if m.phase != Syncing || generation != m.gen {
		return nil
	}
	switch code {
	case 0:
		m.assign(assigned, userData)
	case 25, 22:
		m.lose(m.makeError(broker.OpSyncGroup, code))
	case 82:
		m.fence(m.makeError(broker.OpSyncGroup, code))
	case 14, 15, 16, 27, Transport:
		m.attempt++
		m.join()
	default:
		m.fail(m.makeError(broker.OpSyncGroup, code))
	}
	return m.effects
}

func (m *Machine) assign(assigned []record.TopicPartition, userData []byte) {
	minus := func(a, b []record.TopicPartition) (d []record.TopicPartition) {
		for _, tp := range a {
			if !slices.Contains(b, tp) {
				d = append(d, tp)
			}
		}
		return d
	}
	added := minus(assigned, m.owned)
	m.revoked = minus(m.owned, assigned)
	m.owned = slices.Concat(assigned, m.revoked)
	m.lastBeat, m.fenced, m.phase = m.now, 0, Stable
	m.deliver(broker.Assigned{Generation: m.gen, MemberID: m.id, Partitions: slices.Clone(assigned), Added: added, UserData: userData})
	if len(m.revoked) > 0 {
		m.phase = Revoking
		m.deliver(broker.Revoking{Generation: m.gen, Partitions: slices.Clone(m.revoked)})
	}
	m.resend()
	if m.again {
		m.rejoin("asked for during the last rebalance")
	}
}

// Released says that the revoked partitions of a generation were given up.
func (m *Machine) Released(now time.Time, generation int32) []Effect {
	m.begin(now)
	if m.phase != Revoking || generation != m.gen {
		return nil
	}
	m.owned = slices.DeleteFunc(m.owned, func(tp record.TopicPartition) bool { return slices.Contains(m.revoked, tp) })
	m.revoked, m.attempt = nil, 0
	m.join()
	return m.effects
}

// Tick sends a heartbeat if one is wanted; it is called every heartbeat interval.
func (m *Machine) Tick(now time.Time) []Effect {
	m.begin(now)
	if m.phase != Stable && m.phase != Revoking {
		return nil
	}
	if now.Sub(m.lastBeat) > m.session {
		m.lose(m.makeError(broker.OpHeartbeat, Transport))
		return m.effects
	}
	if !m.beating {
		m.beating = true
		m.do(Heartbeat{m.gen, m.id})
	}
	return m.effects
}

// Beat is the answer to Heartbeat. One that was sent in another generation says nothing about this one.
func (m *Machine) Beat(now time.Time, generation int32, code int16) []Effect {
	m.begin(now)
	m.beating = false
	if generation != m.gen || (m.phase != Stable && m.phase != Revoking) {
		return nil
	}
	switch code {
	case 0:
		m.lastBeat = now
	case 27:
		m.lastBeat = now
		m.rejoin("the group is rebalancing")
	case 25, 22:
		m.lose(m.makeError(broker.OpHeartbeat, code))
	case 82:
		m.fence(m.makeError(broker.OpHeartbeat, code))
	case 14, 15, 16, Transport:
	default:
		m.fail(m.makeError(broker.OpHeartbeat, code))
	}
	return m.effects
}

// Commit asks for offsets to be committed.
func (m *Machine) Commit(now time.Time, token uint64, offsets broker.Offsets) []Effect {
	m.begin(now)
	c := &pendingCommit{token: token, offsets: offsets}
	if m.over() || m.gen < 0 {
		m.answer(c, m.makeError(broker.OpOffsetCommit, 25))
		return m.effects
	}
	m.pending[token] = c
	if m.phase == Syncing {
		c.held = true
		return m.effects
	}
	m.send(c)
	return m.effects
}

func (m *Machine) send(c *pendingCommit) {
	c.gen, c.held = m.gen, false
	m.do(Commit{c.token, c.offsets, m.gen, m.id, c.attempt})
}

func (m *Machine) answer(c *pendingCommit, err *broker.Error) {
	delete(m.pending, c.token)
	m.deliver(broker.OffsetsCommitted{Token: c.token, Err: err})
}

// Committed is the answer to Commit. 27, and 22 for an older generation or while a join is pending, are no loss: the
// commit waits for the sync and goes out again if its partitions are still this member's.
func (m *Machine) Committed(now time.Time, token uint64, code int16) []Effect {
	m.begin(now)
	c := m.pending[token]
	if c == nil {
		return nil
	}
	stale := c.gen != m.gen || m.phase == Joining || m.phase == Syncing
	switch {
	case code == 0:
		m.answer(c, nil)
	case code == 27 || (code == 22 && stale):
		c.attempt++
		if m.phase == Joining || m.phase == Syncing {
			c.held = true
		} else if m.keeps(c) {
			m.send(c)
		}
	case code == 14 || code == 15 || code == 16 || code == 7 || code == Transport:
		c.attempt++
		m.send(c)
	case code == 22 || code == 25:
		m.lose(m.makeError(broker.OpOffsetCommit, code))
	case code == 82:
		m.fence(m.makeError(broker.OpOffsetCommit, code))
	default:
		m.answer(c, m.makeError(broker.OpOffsetCommit, code))
	}
	return m.effects
}

// keeps says that every partition of the commit is still owned; if not, the commit is answered with Abort.
func (m *Machine) keeps(c *pendingCommit) bool {
	for tp := range c.offsets {
		if !slices.Contains(m.owned, tp) {
			err := m.makeError(broker.OpOffsetCommit, 22)
			err.Class = broker.Abort
			m.answer(c, err)
			return false
		}
	}
	return true
}

func (m *Machine) resend() {
	for _, token := range m.tokens() {
		if c := m.pending[token]; c.held && m.keeps(c) {
			m.send(c)
		}
	}
}

func (m *Machine) tokens() (tokens []uint64) {
	for t := range m.pending {
		tokens = append(tokens, t)
	}
	slices.Sort(tokens)
	return tokens
}

// lose gives everything up without a word to the group, which has thrown this member out, and joins anew.
func (m *Machine) lose(cause *broker.Error) {
	migrated := *cause
	migrated.Class = broker.Migrated
	for _, token := range m.tokens() {
		m.answer(m.pending[token], &migrated)
	}
	lost := m.owned
	m.owned, m.revoked, m.id, m.gen, m.beating = nil, nil, "", -1, false
	m.deliver(broker.Lost{Partitions: lost, Cause: &migrated})
	m.attempt++
	m.join()
}

// fence is another process under this instance id. Once may be this process's own predecessor; twice is a mistake.
func (m *Machine) fence(cause *broker.Error) {
	if m.fenced++; m.fenced > 1 {
		cause.Class = broker.Fatal
		m.fail(cause)
		return
	}
	m.lose(cause)
}

func (m *Machine) fail(cause *broker.Error) {
	for _, token := range m.tokens() {
		m.answer(m.pending[token], cause)
	}
	m.phase = Failed
	m.deliver(broker.GroupFailed{Err: cause})
}

// Leave ends the membership; what is pending is answered.
func (m *Machine) Leave(now time.Time) []Effect {
	m.begin(now)
	for _, token := range m.tokens() {
		m.answer(m.pending[token], m.makeError(broker.OpOffsetCommit, 25))
	}
	m.phase = Left
	return m.effects
}
