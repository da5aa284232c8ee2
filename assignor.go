package millrace

import (
	"sync/atomic"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// assignor is package assign as the kafka room asks for it.
type assignor struct {
	node            *Node
	transactionalID string
	round           atomic.Uint64
}

var _ kafka.StaleAssignor = (*assignor)(nil)

// Stale implements kafka.StaleAssignor: a static member that has changed over a restart has to make itself heard.
func (a *assignor) Stale(_ string, partitions []record.TopicPartition, assignment []byte) bool {
	p := a.node.plan.Load()
	return assign.Stale(assign.Present{Endpoint: a.node.opts.endpoint, Tasks: p.Tasks(), Sources: p.Sources, Partitions: partitions}, assignment)
}

// Name implements kafka.Assignor.
func (a *assignor) Name() string { return "millrace" }

// UserData implements kafka.Assignor: who this is, and the tasks whose state is on disk here.
func (a *assignor) UserData([]record.TopicPartition) []byte {
	tasks, err := a.node.dir.Tasks()
	if err != nil {
		a.node.opts.logger.Warn("the state directory cannot be listed; tasks may move more than they need to", "err", err)
	}
	return assign.EncodeMember(assign.Member{
		ProcessID: a.node.dir.ProcessID().String(), Endpoint: a.node.opts.endpoint, Previous: tasks, TransactionalID: a.transactionalID,
		Shutdown: a.node.application.request.Load(),
	}, a.round.Add(1))
}

// Assign implements kafka.Assignor.
func (a *assignor) Assign(members []kafka.GroupMember, partitions map[string]int32) (map[string]kafka.GroupAssignment, error) {
	in := assign.Input{Sources: map[int32][]string{}, Partitions: partitions}
	for _, m := range members {
		member, err := assign.DecodeSubscription(m.ID, m.UserData)
		if err != nil {
			return nil, err
		}
		member.Owned, member.Generation = m.Owned, m.Generation
		in.Members = append(in.Members, member)
	}
	for _, s := range a.node.topology.SubTopologies {
		for _, src := range s.Sources {
			in.Sources[s.ID] = append(in.Sources[s.ID], src.Topic)
		}
	}
	plan, err := assign.Make(in)
	if err != nil {
		return nil, err
	}
	out := map[string]kafka.GroupAssignment{}
	for id, as := range plan.Assignments {
		out[id] = kafka.GroupAssignment{Partitions: as.Partitions, UserData: assign.EncodeAssignment(plan, id)}
	}
	return out, nil
}
