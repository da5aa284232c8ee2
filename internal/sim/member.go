package main

import (
	"time"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// membership carries the effects of the real member machine out, as the kafka room's group does on goroutines.
type membership struct {
	*process
	machine *member.Machine
	// synced is when the last generation began, joined the answer that the next sync is about.
	synced time.Duration
	joined joinAnswer
	round  uint64
	last   time.Duration
	ended  bool
}

var _ thread.Group = (*membership)(nil)

const (
	handOff = 20 * time.Microsecond
	eager   = 200 * time.Millisecond
)

func newMembership(p *process) *membership {
	m := &membership{process: p, synced: -time.Hour, last: -time.Hour}
	m.machine = member.New(member.Config{Session: sessionTimeout, Static: true, Error: func(op broker.Op, code int16) *broker.Error {
		return kafka.NewError(op, code, record.TopicPartition{}, nil)
	}})
	return m
}

// submit hands a call of the machine over, as to another goroutine.
func (m *membership) submit(step func(now time.Time) []member.Effect) {
	m.world.after(handOff, func() {
		m.deliver(func() { m.carryOut(step(m.clock())) })
	})
}

func (m *membership) start() {
	m.submit(m.machine.Start)
	m.tick()
}

// tick is the heartbeat: often in a young generation, of which a cooperative rebalance has two.
func (m *membership) tick() {
	m.world.after(eager, func() {
		m.deliver(func() {
			if m.ended {
				return
			}
			if now := m.world.now; now-m.last >= heartbeat || now-m.synced < 2*heartbeat {
				m.last = now
				m.carryOut(m.machine.Tick(m.clock()))
			}
			m.tick()
		})
	})
}

// Released implements thread.Group.
func (m *membership) Released(generation int32, _ []record.TopicPartition) {
	m.submit(func(now time.Time) []member.Effect { return m.machine.Released(now, generation) })
}

// Commit implements thread.Group.
func (m *membership) Commit(token uint64, o broker.Offsets) {
	m.submit(func(now time.Time) []member.Effect { return m.machine.Commit(now, token, o) })
}

// CommittedOffsets implements thread.Group.
func (m *membership) CommittedOffsets(token uint64, tps []record.TopicPartition, stable bool) {
	m.submit(func(now time.Time) []member.Effect { return m.machine.Offsets(now, token, tps, stable) })
}

// Rejoin implements thread.Group.
func (m *membership) Rejoin(reason string) {
	m.submit(func(now time.Time) []member.Effect { return m.machine.Rejoin(now, reason) })
}

func (m *membership) carryOut(effects []member.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case member.Deliver:
			if _, ok := e.Event.(broker.Assigned); ok {
				m.synced = m.world.now
			}
			m.put(e.Event)
		case member.Join:
			m.pause(e.Attempt, func() { m.join(e) })
		case member.Sync:
			m.sync(e, m.joined)
		case member.Heartbeat:
			m.beat(e)
		case member.Commit:
			m.pause(e.Attempt, func() { m.commit(e) })
		case member.Fetch:
			m.fetch(e, 0)
		}
	}
}

// pause is the back-off before another attempt.
func (m *membership) pause(attempt int, do func()) {
	if attempt == 0 {
		do()
		return
	}
	m.world.after(m.backoff(attempt), func() { m.deliver(do) })
}

// ask sends a request to the group's coordinator; carry gives its code and what to do with the answer.
func (m *membership) ask(role string, op broker.Op, carry func(g *group, answer func(code int16, then func())), lost func(int16)) {
	g := m.world.group
	to := m.where(g, g.on)
	m.request(role, op, to, func(answer func(func())) {
		tell := func(code int16, then func()) {
			answer(func() {
				m.world.say("%s: %s answered %d", m.name, op, code)
				if code == codeNotCoordinator {
					m.forget(g)
				}
				then()
			})
		}
		if code := g.refuse(to); code != 0 {
			tell(code, func() { lost(code) })
			return
		}
		carry(g, tell)
	}, func(code int16) {
		m.forget(g)
		lost(noAnswer)
	})
}

func (m *membership) join(e member.Join) {
	m.round++
	tasks, err := m.dir.Tasks()
	if err != nil {
		m.world.fail("%s: the tasks on disk cannot be listed: %v", m.name, err)
	}
	s := subscription{owned: e.Owned, generation: e.Generation, userData: assign.EncodeMember(assign.Member{
		ProcessID: m.node.processID, Endpoint: m.node.name, Previous: tasks, TransactionalID: m.slot.TransactionalID,
	}, m.round)}
	joined := func(a joinAnswer) {
		m.joined = a
		m.carryOut(m.machine.Joined(m.clock(), member.JoinAnswer{Seq: e.Seq, Code: a.code, Generation: a.generation, MemberID: a.id, Leader: len(a.members) > 0}))
	}
	m.ask("join", broker.OpJoinGroup, func(g *group, answer func(int16, func())) {
		g.join(e.MemberID, m.instance(), s, func(a joinAnswer) { answer(a.code, func() { joined(a) }) })
	}, func(code int16) { joined(joinAnswer{code: code}) })
}

func (m *membership) sync(e member.Sync, joined joinAnswer) {
	synced := func(a syncAnswer) {
		present := assign.Present{Endpoint: m.node.name, Tasks: m.tasks.Tasks(), Sources: m.tasks.Sources, Partitions: a.partitions}
		m.carryOut(m.machine.Synced(m.clock(), member.SyncAnswer{Generation: e.Generation, Code: a.code, Partitions: a.partitions, UserData: a.userData,
			Stale: a.code == 0 && assign.Stale(present, a.userData)}))
	}
	var all map[string]syncAnswer
	if e.Leader {
		all = m.plan(joined.members)
	}
	m.ask("join", broker.OpSyncGroup, func(g *group, answer func(int16, func())) {
		g.sync(e.MemberID, m.instance(), e.Generation, all, func(a syncAnswer) { answer(a.code, func() { synced(a) }) })
	}, func(code int16) { synced(syncAnswer{code: code}) })
}

// plan is the real assignor.
func (m *membership) plan(members []groupMember) map[string]syncAnswer {
	in := assign.Input{Sources: map[int32][]string{}, Partitions: map[string]int32{}}
	for _, s := range m.tasks.Topology.SubTopologies {
		for _, src := range s.Sources {
			in.Sources[s.ID] = append(in.Sources[s.ID], src.Topic)
			in.Partitions[src.Topic] = int32(m.world.plan.Partitions)
		}
	}
	for _, o := range members {
		d, err := assign.DecodeSubscription(o.id, o.userData)
		if err != nil {
			m.world.fail("%s: %v", m.name, err)
		}
		d.Owned, d.Generation = o.owned, o.generation
		in.Members = append(in.Members, d)
	}
	plan, err := assign.Make(in)
	if err != nil {
		m.world.fail("%s: %v", m.name, err)
	}
	all := map[string]syncAnswer{}
	for id, a := range plan.Assignments {
		all[id] = syncAnswer{partitions: a.Partitions, userData: assign.EncodeAssignment(plan, id)}
	}
	return all
}

func (m *membership) beat(e member.Heartbeat) {
	m.ask("group", broker.OpHeartbeat, func(g *group, answer func(int16, func())) {
		code := g.beat(e.MemberID, m.instance(), e.Generation)
		answer(code, func() { m.carryOut(m.machine.Beat(m.clock(), e.Generation, code)) })
	}, func(code int16) { m.carryOut(m.machine.Beat(m.clock(), e.Generation, code)) })
}

func (m *membership) commit(e member.Commit) {
	m.ask("group", broker.OpOffsetCommit, func(g *group, answer func(int16, func())) {
		code := g.commit(e.MemberID, m.instance(), e.Generation, e.Offsets)
		answer(code, func() { m.carryOut(m.machine.Committed(m.clock(), e.Token, code)) })
	}, func(code int16) { m.carryOut(m.machine.Committed(m.clock(), e.Token, code)) })
}

// fetch asks until the answer is not a transient error.
func (m *membership) fetch(e member.Fetch, attempt int) {
	again := func(int16) {
		if !m.ended {
			m.world.after(m.backoff(attempt+1), func() { m.deliver(func() { m.fetch(e, attempt+1) }) })
		}
	}
	m.ask("group", broker.OpOffsetFetch, func(g *group, answer func(int16, func())) {
		at, code := g.fetch(e.Partitions, e.Stable)
		answer(code, func() {
			if code != 0 {
				again(code)
				return
			}
			m.carryOut(m.machine.Fetched(m.clock(), e.Token, at, nil))
		})
	}, again)
}

// leave ends the membership. A LeaveGroup that is lost is the session's matter.
func (m *membership) leave() {
	m.carryOut(m.machine.Leave(m.clock()))
	m.ended = true
	m.ask("group", broker.OpLeaveGroup, func(g *group, answer func(int16, func())) {
		g.leave(m.instance())
		answer(0, func() {})
	}, func(int16) {})
}

// isCurrent says that the coordinator and this member agree on the generation.
func (p *process) isCurrent() bool {
	g, m := p.world.group, p.membership.machine
	known := g.byInstance(p.instance())
	return known != nil && known.id == m.ID() && g.generation == m.Generation()
}
