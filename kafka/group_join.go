package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
)

// startJoin replaces a join that is under way: its connection is cut, since the broker would answer the next one after it.
func (g *Group) startJoin(e member.Join) {
	if g.cutJoin != nil {
		g.cutJoin()
	}
	var ctx context.Context
	ctx, g.cutJoin = context.WithCancel(g.ctx)
	g.goDo(func() { g.sendJoin(ctx, e) })
}

// sendJoin reports the answer of one JoinGroup.
func (g *Group) sendJoin(ctx context.Context, e member.Join) {
	if e.Attempt > 0 && !sleep(ctx, backoff(e.Attempt)) {
		return
	}
	r := &sarama.JoinGroupRequest{
		Version: 8, GroupId: g.cfg.Group, MemberId: e.MemberID, GroupInstanceId: g.instance(), ProtocolType: "consumer", Reason: &e.Reason,
		SessionTimeout: int32(g.cfg.SessionTimeout.Milliseconds()), RebalanceTimeout: int32(g.cfg.RebalanceTimeout.Milliseconds()),
	}
	report := func(a member.JoinAnswer, joined *sarama.JoinGroupResponse) {
		a.Seq = e.Seq
		g.submit(func(now time.Time) []member.Effect {
			g.joined = joined
			return g.machine.Joined(now, a)
		})
	}
	if err := r.AddGroupProtocolMetadata(g.cfg.Assignor.Name(), g.subscription(e)); err != nil {
		g.cfg.Config.log().Error("the subscription cannot be encoded", "err", err)
		report(member.JoinAnswer{Code: int16(sarama.ErrInvalidRequest)}, nil)
		return
	}
	answer, code := ask(ctx, g, g.join, func(b *sarama.Broker) (*sarama.JoinGroupResponse, error) { return b.JoinGroup(r) }, func(r *sarama.JoinGroupResponse) sarama.KError { return r.Err })
	a := member.JoinAnswer{Code: code}
	if answer != nil {
		a.MemberID, a.Generation = answer.MemberId, answer.GenerationId
		a.Leader = answer.LeaderId == answer.MemberId && len(answer.Members) > 0
	}
	report(a, answer)
}

func (g *Group) subscription(e member.Join) *sarama.ConsumerGroupMemberMetadata {
	m := &sarama.ConsumerGroupMemberMetadata{Version: 2, Topics: g.cfg.Topics, UserData: g.cfg.Assignor.UserData(e.Owned), GenerationID: e.Generation}
	for topic, partitions := range byTopic(e.Owned) {
		m.OwnedPartitions = append(m.OwnedPartitions, &sarama.OwnedPartition{Topic: topic, Partitions: partitions})
	}
	slices.SortFunc(m.OwnedPartitions, func(a, b *sarama.OwnedPartition) int {
		return record.TopicPartition{Topic: a.Topic}.Compare(record.TopicPartition{Topic: b.Topic})
	})
	return m
}

// sendSync reports the assignment, or a code that has the machine join again.
func (g *Group) sendSync(joined *sarama.JoinGroupResponse, leader bool) {
	r := &sarama.SyncGroupRequest{Version: 3, GroupId: g.cfg.Group, GenerationId: joined.GenerationId, MemberId: joined.MemberId, GroupInstanceId: g.instance()}
	a := member.SyncAnswer{Generation: joined.GenerationId}
	var answer *sarama.SyncGroupResponse
	if err := g.assignIfLeader(joined, r, leader); err != nil {
		g.cfg.Config.log().Warn("this leader cannot assign; the group tries again", "err", err)
		a.Code = member.Transport
	} else {
		answer, a.Code = ask(g.ctx, g, g.join, func(b *sarama.Broker) (*sarama.SyncGroupResponse, error) { return b.SyncGroup(r) },
			func(r *sarama.SyncGroupResponse) sarama.KError { return r.Err })
	}
	if a.Code == 0 {
		a = g.assignment(answer, a, joined.MemberId)
	}
	g.submit(func(now time.Time) []member.Effect { return g.machine.Synced(now, a) })
}

// assignment reads this member's part. An empty one is what a broker gives a member that the leader left out.
func (g *Group) assignment(answer *sarama.SyncGroupResponse, a member.SyncAnswer, id string) member.SyncAnswer {
	a.Stale = true
	if len(answer.MemberAssignment) == 0 {
		return a
	}
	wire, err := answer.GetMemberAssignment()
	if err != nil {
		g.cfg.Config.log().Warn("the assignment cannot be read; this member joins again", "err", err)
		a.Code = member.Transport
		return a
	}
	a.UserData = wire.UserData
	for topic, partitions := range wire.Topics {
		for _, p := range partitions {
			a.Partitions = append(a.Partitions, record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	slices.SortFunc(a.Partitions, record.TopicPartition.Compare)
	if s, ok := g.cfg.Assignor.(StaleAssignor); ok {
		a.Stale = s.Stale(id, a.Partitions, a.UserData)
	}
	return a
}

func (g *Group) assignIfLeader(joined *sarama.JoinGroupResponse, r *sarama.SyncGroupRequest, leader bool) error {
	if !leader {
		return nil
	}
	return g.assign(joined, r)
}

// assign asks the assignor with fresh partition counts.
func (g *Group) assign(joined *sarama.JoinGroupResponse, r *sarama.SyncGroupRequest) error {
	members, err := groupMembers(joined)
	if err != nil {
		return err
	}
	counts, err := g.counts(g.join)
	if err != nil {
		return err
	}
	for _, topic := range g.cfg.Topics {
		if _, ok := counts[topic]; !ok {
			return fmt.Errorf("topic %q is not there", topic)
		}
	}
	assignments, err := g.cfg.Assignor.Assign(members, counts)
	if err != nil {
		return err
	}
	for _, m := range members {
		a := assignments[m.ID]
		wire := &sarama.ConsumerGroupMemberAssignment{Version: 2, Topics: byTopic(a.Partitions), UserData: a.UserData}
		if err := r.AddGroupAssignmentMember(m.ID, wire); err != nil {
			return err
		}
	}
	return nil
}

// groupMembers are the members as they described themselves, in the order of their ids.
func groupMembers(joined *sarama.JoinGroupResponse) (members []GroupMember, err error) {
	subscriptions, err := joined.GetMembers()
	if err != nil {
		return nil, err
	}
	for _, j := range joined.Members {
		s := subscriptions[j.MemberId]
		m := GroupMember{ID: j.MemberId, Topics: s.Topics, UserData: s.UserData, Generation: s.GenerationID}
		if j.GroupInstanceId != nil {
			m.InstanceID = *j.GroupInstanceId
		}
		for _, o := range s.OwnedPartitions {
			for _, p := range o.Partitions {
				m.Owned = append(m.Owned, record.TopicPartition{Topic: o.Topic, Partition: p})
			}
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b GroupMember) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}
