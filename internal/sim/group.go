package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

const (
	sessionTimeout   = 10 * time.Second
	heartbeat        = 3 * time.Second
	rebalanceTimeout = 60 * time.Second
	appID            = "sim"
)

// groupState is where the group stands, by Kafka's names.
type groupState uint8

const (
	groupEmpty groupState = iota
	preparingRebalance
	completingRebalance
	groupStable
)

// subscription is what a member says of itself with each join.
type subscription struct {
	owned      []record.TopicPartition
	generation int32
	userData   []byte
}

// groupMember is a member as the coordinator knows it. All of them are static.
type groupMember struct {
	id, instance string
	subscription
	// join and sync are its requests that wait for an answer.
	join func(joinAnswer)
	sync func(syncAnswer)
	// alive is when it was last heard of.
	alive      time.Duration
	partitions []record.TopicPartition
	assignment []byte
}

type joinAnswer struct {
	code       int16
	generation int32
	id         string
	// members is for the leader.
	members []groupMember
}

type syncAnswer struct {
	code       int16
	partitions []record.TopicPartition
	userData   []byte
}

// group is the group coordinator with one group.
type group struct {
	world      *world
	on         *server
	loading    time.Duration
	state      groupState
	generation int32
	members    []*groupMember
	leader     string
	named      int
	// round numbers rebalances, so that a time-out is for the one that it was set for.
	round int
	offsets
}

func newGroup(w *world) *group {
	return &group{world: w, on: pick(w, w.servers), generation: 0, offsets: offsets{committed: broker.Offsets{}, pending: map[int64]broker.Offsets{}, highest: map[record.TopicPartition]int64{}}}
}

func (g *group) refuse(asked *server) int16 {
	switch {
	case g.on != asked:
		return codeNotCoordinator
	case g.world.now < g.loading:
		return codeLoading
	}
	return 0
}

// load is the beginning of a coordinator on another broker, or on one that is back: sessions are counted from zero.
func (g *group) load() {
	g.loading = g.world.now + g.world.between(loadingLow, loadingHigh)
	for _, m := range g.members {
		g.touch(m)
	}
}

// move takes the group to another broker. Requests that wait are told; the rest of the state is in the log and comes along.
func (g *group) move(to *server) {
	g.world.say("the group coordinator moves to broker %d", to.id)
	g.on = to
	for _, m := range g.members {
		g.answerJoin(m, joinAnswer{code: codeNotCoordinator})
		g.answerSync(m, syncAnswer{code: codeNotCoordinator})
	}
	g.load()
	if g.state == preparingRebalance {
		g.watchRound()
	}
}

func (g *group) answerJoin(m *groupMember, a joinAnswer) {
	if f := m.join; f != nil {
		m.join = nil
		g.touch(m)
		f(a)
	}
}

func (g *group) answerSync(m *groupMember, a syncAnswer) {
	if f := m.sync; f != nil {
		m.sync = nil
		g.touch(m)
		f(a)
	}
}

func (g *group) byID(id string) *groupMember {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (g *group) byInstance(instance string) *groupMember {
	for _, m := range g.members {
		if m.instance == instance {
			return m
		}
	}
	return nil
}

// known is the code for who asks under an id and an instance.
func (g *group) known(id, instance string) (m *groupMember, code int16) {
	m = g.byInstance(instance)
	switch {
	case m == nil:
		return nil, codeUnknownMember
	case m.id != id:
		return nil, codeFencedInstance
	}
	return m, 0
}

// touch sets a member's session anew.
func (g *group) touch(m *groupMember) {
	m.alive = g.world.now
	alive := m.alive
	g.world.after(sessionTimeout, func() { g.expire(m, alive) })
}

func (g *group) expire(m *groupMember, alive time.Duration) {
	if m.alive != alive || m.join != nil || !slices.Contains(g.members, m) {
		return
	}
	if !g.on.up || g.world.now < g.loading {
		return // it counts from zero when it is back
	}
	g.world.say("the session of %s is over", m.id)
	g.world.tally.Expired++
	g.remove(m)
}

// remove takes a member out and begins the next generation.
func (g *group) remove(m *groupMember) {
	g.members = slices.DeleteFunc(g.members, func(o *groupMember) bool { return o == m })
	g.answerJoin(m, joinAnswer{code: codeUnknownMember})
	g.answerSync(m, syncAnswer{code: codeUnknownMember})
	switch {
	case len(g.members) == 0:
		g.state = groupEmpty
		g.generation++
	case g.state == preparingRebalance:
		g.maybeComplete()
	default:
		g.rebalance(m.id + " is gone")
	}
}

func (g *group) newID(instance string) string {
	g.named++
	return fmt.Sprintf("%s/%d", instance, g.named)
}

// join is JoinGroup.
func (g *group) join(id, instance string, s subscription, answer func(joinAnswer)) {
	m := g.byInstance(instance)
	switch {
	case id == "" && m == nil:
		m = &groupMember{id: g.newID(instance), instance: instance, subscription: s}
		g.members = append(g.members, m)
		g.wait(m, s, answer, "a new member")
	case id == "":
		g.replace(m, s, answer)
	case m == nil:
		answer(joinAnswer{code: codeUnknownMember, id: id})
	case m.id != id:
		answer(joinAnswer{code: codeFencedInstance, id: id})
	default:
		g.wait(m, s, answer, m.id+" joins again")
	}
}

// replace gives a static member that has come back its predecessor's place. In a stable group that is all: no rebalance,
// the old assignment, and nobody tells the leader.
func (g *group) replace(m *groupMember, s subscription, answer func(joinAnswer)) {
	old := m.id
	g.answerJoin(m, joinAnswer{code: codeFencedInstance, id: old})
	g.answerSync(m, syncAnswer{code: codeFencedInstance})
	m.id = g.newID(m.instance)
	if g.state == groupStable {
		g.world.say("%s is back as %s", old, m.id)
		g.world.tally.CameBack++
		leads := g.leader == old
		if leads {
			g.leader = m.id
		}
		m.subscription = s
		g.touch(m)
		answer(joinAnswer{generation: g.generation, id: m.id})
		return
	}
	if g.leader == old {
		g.leader = m.id
	}
	g.wait(m, s, answer, m.id+" is back in a rebalance")
}

// wait keeps a join until all have joined.
func (g *group) wait(m *groupMember, s subscription, answer func(joinAnswer), why string) {
	g.answerJoin(m, joinAnswer{code: codeRebalance, id: m.id})
	m.subscription, m.join = s, answer
	if g.state != preparingRebalance {
		g.rebalance(why)
		return
	}
	g.maybeComplete()
}

// rebalance begins one: syncs that wait are told, and everybody has to join again.
func (g *group) rebalance(why string) {
	g.world.say("rebalance: %s", why)
	g.state = preparingRebalance
	for _, m := range slices.Clone(g.members) {
		g.answerSync(m, syncAnswer{code: codeRebalance})
	}
	g.watchRound()
	g.maybeComplete()
}

func (g *group) watchRound() {
	g.round++
	round := g.round
	g.world.after(rebalanceTimeout, func() {
		if g.state == preparingRebalance && g.round == round && g.on.up {
			g.complete()
		}
	})
}

func (g *group) maybeComplete() {
	for _, m := range g.members {
		if m.join == nil {
			return
		}
	}
	g.complete()
}

// complete begins the next generation. A static member that has not joined stays in it, and learns from its next request
// that it knows another one.
func (g *group) complete() {
	if len(g.members) == 0 || !slices.ContainsFunc(g.members, func(m *groupMember) bool { return m.join != nil }) {
		return
	}
	g.generation++
	g.state = completingRebalance
	g.world.tally.Generations++
	leader := g.byID(g.leader)
	if leader == nil || leader.join == nil {
		for _, m := range g.members {
			if m.join != nil {
				leader = m
				break
			}
		}
		g.leader = leader.id
	}
	g.world.say("generation %d of %d members, led by %s", g.generation, len(g.members), g.leader)
	var all []groupMember
	for _, m := range g.members {
		m.partitions, m.assignment = nil, nil
		all = append(all, *m)
	}
	for _, m := range slices.Clone(g.members) {
		a := joinAnswer{generation: g.generation, id: m.id}
		if m == leader {
			a.members = all
		}
		g.answerJoin(m, a)
	}
}

// sync is SyncGroup; the leader brings the assignment of all.
func (g *group) sync(id, instance string, generation int32, all map[string]syncAnswer, answer func(syncAnswer)) {
	m, code := g.known(id, instance)
	switch {
	case code != 0:
	case generation != g.generation:
		code = codeIllegalGeneration
	case g.state == preparingRebalance:
		code = codeRebalance
	}
	if code != 0 {
		answer(syncAnswer{code: code})
		return
	}
	g.touch(m)
	if g.state == groupStable {
		answer(syncAnswer{partitions: m.partitions, userData: m.assignment})
		return
	}
	g.answerSync(m, syncAnswer{code: codeRebalance})
	m.sync = answer
	if id != g.leader || all == nil {
		return
	}
	for _, m := range g.members {
		m.partitions, m.assignment = all[m.id].partitions, all[m.id].userData
	}
	g.state = groupStable
	for _, m := range slices.Clone(g.members) {
		g.answerSync(m, syncAnswer{partitions: m.partitions, userData: m.assignment})
	}
}

// beat is Heartbeat.
func (g *group) beat(id, instance string, generation int32) int16 {
	m, code := g.known(id, instance)
	switch {
	case code != 0:
		return code
	case generation != g.generation:
		return codeIllegalGeneration
	}
	g.touch(m)
	if g.state == preparingRebalance {
		return codeRebalance
	}
	return 0
}

// leave is LeaveGroup.
func (g *group) leave(instance string) {
	if m := g.byInstance(instance); m != nil {
		g.world.say("%s leaves", m.id)
		g.remove(m)
	}
}

// owner is the instance that has a partition in the present generation; empty if nobody was given it.
func (g *group) owner(tp record.TopicPartition) string {
	for _, m := range g.members {
		if slices.Contains(m.partitions, tp) {
			return m.instance
		}
	}
	return ""
}
