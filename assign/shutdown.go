package assign

import (
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/assign/assignpb"
)

// shutdown is the request of the first member, by id, that has one.
func (p *planner) shutdown() *Shutdown {
	for _, id := range p.members {
		if s := p.byID[id].Shutdown; s != nil {
			return s
		}
	}
	return nil
}

// stay is the plan of an application that is about to end: nobody gives anything up, so nobody waits for that before it
// hears of the end, and nobody takes over what the first to end leaves behind.
func (p *planner) stay(s *Shutdown) *Plan {
	out := p.empty()
	out.Shutdown = s
	for _, t := range p.tasks {
		id, ok := p.owner[t]
		if !ok {
			continue
		}
		out.Owners = append(out.Owners, Owner{Task: t, Member: id, Endpoint: p.byID[id].Endpoint})
		a := out.Assignments[id]
		a.Tasks = append(a.Tasks, t)
		for _, tp := range p.topics[t] {
			if holder := p.holders[tp]; holder != "" {
				out.Assignments[holder].Partitions = append(out.Assignments[holder].Partitions, tp)
			}
		}
	}
	return out
}

func wireShutdown(s *Shutdown, members []string) *assignpb.Shutdown {
	if s == nil {
		return nil
	}
	return &assignpb.Shutdown{Node: s.Node, Thread: s.Thread, Reason: s.Reason, Members: members}
}

func shutdownOf(s *assignpb.Shutdown) *Shutdown {
	if s == nil {
		return nil
	}
	return &Shutdown{Node: s.Node, Thread: s.Thread, Reason: s.Reason}
}

// DecodeShutdown reads out of an assignment that the application is to end; nil if it is not, or if the assignment was
// made for another member: a broker hands a static member that comes back its predecessor's. Its error is a
// *UserDataError.
func DecodeShutdown(member string, b []byte) (*Shutdown, error) {
	var a assignpb.Assignment
	if err := proto.Unmarshal(b, &a); err != nil {
		return nil, &UserDataError{Cause: err}
	}
	for _, m := range a.GetShutdown().GetMembers() {
		if m == member {
			return shutdownOf(a.Shutdown), nil
		}
	}
	return nil, nil
}
