package assign

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/assign/assignpb"
	"github.com/millrace-io/millrace/record"
)

// Version is the newest format of the user data that this build writes and reads. The lowest of a group's members is used.
const Version = 1

// EncodeSubscription writes what a member says of itself.
func EncodeSubscription(processID, endpoint string, tasks []record.TaskID, round uint64) []byte {
	s := &assignpb.Subscription{Version: Version, ProcessId: processID, Endpoint: endpoint, Round: round}
	for _, t := range tasks {
		s.Active = append(s.Active, &assignpb.Task{SubTopology: t.SubTopology, Partition: t.Partition})
	}
	b, err := proto.Marshal(s)
	if err != nil {
		panic(err) // a message of our own with valid strings cannot fail
	}
	return b
}

// DecodeSubscription reads it. Bytes that are not a subscription are an error that names the member.
func DecodeSubscription(member string, b []byte) (Member, error) {
	var s assignpb.Subscription
	if err := proto.Unmarshal(b, &s); err != nil {
		return Member{}, fmt.Errorf("assign: the user data of member %q is not Millrace's: %w", member, err)
	}
	m := Member{ID: member, ProcessID: s.ProcessId, Endpoint: s.Endpoint}
	for _, t := range s.Active {
		m.Previous = append(m.Previous, record.TaskID{SubTopology: t.SubTopology, Partition: t.Partition})
	}
	return m, nil
}

// EncodeAssignment writes one member's part of a plan, with the owners of all tasks.
func EncodeAssignment(p *Plan, member string) []byte {
	a := &assignpb.Assignment{Version: Version}
	for _, t := range p.Assignments[member].Tasks {
		a.Active = append(a.Active, &assignpb.Task{SubTopology: t.SubTopology, Partition: t.Partition})
	}
	for _, o := range p.Owners {
		a.Owners = append(a.Owners, &assignpb.Owner{
			Task: &assignpb.Task{SubTopology: o.Task.SubTopology, Partition: o.Task.Partition}, Member: o.Member, Endpoint: o.Endpoint, Intended: o.Intended,
		})
	}
	b, err := proto.Marshal(a)
	if err != nil {
		panic(err) // as above
	}
	return b
}

// DecodeOwners reads the owners out of an assignment.
func DecodeOwners(b []byte) ([]Owner, error) {
	var a assignpb.Assignment
	if err := proto.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("assign: the assignment is not Millrace's: %w", err)
	}
	var owners []Owner
	for _, o := range a.Owners {
		owners = append(owners, Owner{
			Task: record.TaskID{SubTopology: o.Task.GetSubTopology(), Partition: o.Task.GetPartition()}, Member: o.Member, Endpoint: o.Endpoint, Intended: o.Intended,
		})
	}
	return owners, nil
}
