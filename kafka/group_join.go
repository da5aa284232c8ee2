package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
)

// sendJoin joins and, if that is answered with a generation, syncs: both on the join connections, one after the other.
func (g *Group) sendJoin(e member.Join) {
	if e.Attempt > 0 && !sleep(g.ctx, backoff(e.Attempt)) {
		return
	}
	r := &sarama.JoinGroupRequest{
		Version: 7, GroupId: g.cfg.Group, MemberId: e.MemberID, GroupInstanceId: g.instance(), ProtocolType: "consumer",
		SessionTimeout: int32(g.cfg.SessionTimeout.Milliseconds()), RebalanceTimeout: int32(g.cfg.RebalanceTimeout.Milliseconds()),
	}
	if err := r.AddGroupProtocolMetadata(g.cfg.Assignor.Name(), g.subscription(e)); err != nil {
		g.cfg.Config.log().Error("a subscription cannot be encoded", "err", err)
		return
	}
	answer, code := ask(g, g.join, func(b *sarama.Broker) (*sarama.JoinGroupResponse, error) { return b.JoinGroup(r) },
		func(r *sarama.JoinGroupResponse) sarama.KError { return r.Err })
	if code != 0 {
		id := ""
		if answer != nil {
			id = answer.MemberId
		}
		g.submit(func(now time.Time) []member.Effect { return g.machine.Joined(now, code, 0, id, false) })
		return
	}
	leader := answer.LeaderId == answer.MemberId && len(answer.Members) > 0
	g.submit(func(now time.Time) []member.Effect {
		return g.machine.Joined(now, 0, answer.GenerationId, answer.MemberId, leader)
	})
	g.sendSync(answer, leader)
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

// sendSync answers the machine with the assignment, or with a code that has it join again.
func (g *Group) sendSync(joined *sarama.JoinGroupResponse, leader bool) {
	r := &sarama.SyncGroupRequest{Version: 3, GroupId: g.cfg.Group, GenerationId: joined.GenerationId, MemberId: joined.MemberId, GroupInstanceId: g.instance()}
	code := int16(0)
	if leader {
		if err := g.assign(joined, r); err != nil {
			g.cfg.Config.log().Warn("this leader cannot assign; the group tries again", "err", err)
			code = member.Transport
		}
	}
	var tps []record.TopicPartition
	var userData []byte
	if code == 0 {
		var answer *sarama.SyncGroupResponse
		answer, code = ask(g, g.join, func(b *sarama.Broker) (*sarama.SyncGroupResponse, error) { return b.SyncGroup(r) },
			func(r *sarama.SyncGroupResponse) sarama.KError { return r.Err })
		if code == 0 && len(answer.MemberAssignment) > 0 {
			a, err := answer.GetMemberAssignment()
			if err != nil {
				code = member.Transport
			} else {
				userData = a.UserData
				for topic, partitions := range a.Topics {
					for _, p := range partitions {
						tps = append(tps, record.TopicPartition{Topic: topic, Partition: p})
					}
				}
				slices.SortFunc(tps, record.TopicPartition.Compare)
			}
		}
	}
	g.submit(func(now time.Time) []member.Effect {
		return g.machine.Synced(now, joined.GenerationId, code, tps, userData)
	})
}

// assign asks the assignor with fresh partition counts.
func (g *Group) assign(joined *sarama.JoinGroupResponse, r *sarama.SyncGroupRequest) error {
	subscriptions, err := joined.GetMembers()
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
	var members []GroupMember
	for id, s := range subscriptions {
		m := GroupMember{ID: id, UserData: s.UserData, Generation: s.GenerationID}
		for _, o := range s.OwnedPartitions {
			for _, p := range o.Partitions {
				m.Owned = append(m.Owned, record.TopicPartition{Topic: o.Topic, Partition: p})
			}
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b GroupMember) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
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
