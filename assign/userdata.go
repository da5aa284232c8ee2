package assign

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/assign/assignpb"
	"github.com/millrace-io/millrace/record"
)

// Version is the newest format of the user data that this build writes and reads. An assignment is written in the lowest
// of the group's members.
const Version uint32 = 1

// UserDataError is user data that is not Millrace's: another application uses this group id.
type UserDataError struct {
	// Member sent it; empty if it is an assignment.
	Member string
	Cause  error
}

// Error names the member and the fix.
func (e *UserDataError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("assign: the assignment is not Millrace's (%v): does another application lead this group id?", e.Cause)
	}
	return fmt.Sprintf("assign: the user data of member %q is not Millrace's (%v): does another application use this group id?", e.Member, e.Cause)
}

// Unwrap gives the cause.
func (e *UserDataError) Unwrap() error { return e.Cause }

var errNoVersion = errors.New("it has no version")

// EncodeMember writes what a member says of itself. What the group protocol carries anyway (id, owned partitions,
// generation) is left out. round must differ in each join, or a broker takes a follower's join for a repetition.
func EncodeMember(m Member, round uint64) []byte {
	s := &assignpb.Subscription{Version: Version, ProcessId: m.ProcessID, Endpoint: m.Endpoint, Active: wireTasks(m.Previous), TransactionalId: m.TransactionalID, Round: round, Shutdown: wireShutdown(m.Shutdown, nil)}
	for t, sum := range m.OffsetSums {
		if s.OffsetSums == nil {
			s.OffsetSums = map[string]int64{}
		}
		s.OffsetSums[t.String()] = sum
	}
	return marshal(s)
}

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // a message of our own with valid strings cannot fail
	}
	return b
}

func wireTasks(tasks []record.TaskID) (wire []*assignpb.Task) {
	for _, t := range tasks {
		wire = append(wire, &assignpb.Task{SubTopology: t.SubTopology, Partition: t.Partition})
	}
	return wire
}

func taskIDs(wire []*assignpb.Task) (tasks []record.TaskID) {
	for _, t := range wire {
		tasks = append(tasks, record.TaskID{SubTopology: t.GetSubTopology(), Partition: t.GetPartition()})
	}
	return tasks
}

// DecodeSubscription reads it. Bytes that are not a subscription are a *UserDataError that names the member. A version
// above this build's is read as far as this build knows it: fields are only added.
func DecodeSubscription(member string, b []byte) (Member, error) {
	var s assignpb.Subscription
	if err := proto.Unmarshal(b, &s); err != nil {
		return Member{}, &UserDataError{member, err}
	}
	if s.Version == 0 {
		return Member{}, &UserDataError{member, errNoVersion}
	}
	m := Member{ID: member, ProcessID: s.ProcessId, Endpoint: s.Endpoint, Previous: taskIDs(s.Active), TransactionalID: s.TransactionalId, Version: s.Version, Shutdown: shutdownOf(s.Shutdown)}
	for _, t := range m.Previous {
		if sum, ok := s.OffsetSums[t.String()]; ok {
			if m.OffsetSums == nil {
				m.OffsetSums = map[record.TaskID]int64{}
			}
			m.OffsetSums[t] = sum
		}
	}
	return m, nil
}

// EncodeAssignment writes one member's part of a plan, with the owners of all tasks and the live transactional ids.
func EncodeAssignment(p *Plan, member string) []byte {
	a := &assignpb.Assignment{Version: p.Version, LiveTransactionalIds: p.TransactionalIDs}
	if part := p.Assignments[member]; part != nil {
		a.Active = wireTasks(part.Tasks)
	}
	if p.Shutdown != nil {
		a.Shutdown = wireShutdown(p.Shutdown, slices.Sorted(maps.Keys(p.Assignments)))
	}
	for _, o := range p.Owners {
		a.Owners = append(a.Owners, &assignpb.Owner{
			Task: &assignpb.Task{SubTopology: o.Task.SubTopology, Partition: o.Task.Partition}, Member: o.Member, Endpoint: o.Endpoint, Intended: o.Intended,
		})
	}
	return marshal(a)
}

// Present is a member as it is now.
type Present struct {
	Endpoint string
	// Tasks are all of its topology, in any order, and Sources what one of them reads.
	Tasks   []record.TaskID
	Sources func(record.TaskID) []record.TopicPartition
	// Partitions are what the assignment gives it.
	Partitions []record.TopicPartition
}

// Stale says that an assignment was made for another than the present member: a broker hands a restarted static member its
// predecessor's and tells no leader. It is, if the predecessor had another endpoint, topology or version of this format, or
// if it has left something undone: a task that was on its way to another member is nobody's until one of the two joins again,
// and an end of the application that was asked for may be over. Another member id alone is no reason, since every restarted
// member has one; without that, each restart would have the whole group rebalance.
func Stale(now Present, assignment []byte) bool {
	var a assignpb.Assignment
	if err := proto.Unmarshal(assignment, &a); err != nil || a.Version != Version || a.Shutdown != nil {
		return true
	}
	mine := taskIDs(a.Active)
	var all []record.TaskID
	for _, o := range a.Owners {
		t := record.TaskID{SubTopology: o.GetTask().GetSubTopology(), Partition: o.GetTask().GetPartition()}
		if o.Intended != "" || o.Endpoint != now.Endpoint && slices.Contains(mine, t) {
			return true
		}
		all = append(all, t)
	}
	var reads []record.TopicPartition
	for _, t := range mine {
		reads = append(reads, now.Sources(t)...)
	}
	return !alike(all, now.Tasks, record.TaskID.Compare) || !alike(reads, now.Partitions, record.TopicPartition.Compare)
}

// alike compares two sets.
func alike[T comparable](a, b []T, compare func(T, T) int) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), compare), slices.SortedFunc(slices.Values(b), compare))
}

// TransactionalIDs reads the live members' transactional ids out of an assignment. Bytes that are none are a *UserDataError.
func TransactionalIDs(b []byte) ([]string, error) {
	var a assignpb.Assignment
	if err := proto.Unmarshal(b, &a); err != nil {
		return nil, &UserDataError{Cause: err}
	}
	return a.LiveTransactionalIds, nil
}

// DecodeOwners reads the owners out of an assignment. Bytes that are none are a *UserDataError.
func DecodeOwners(b []byte) ([]Owner, error) {
	var a assignpb.Assignment
	if err := proto.Unmarshal(b, &a); err != nil {
		return nil, &UserDataError{Cause: err}
	}
	var owners []Owner
	for _, o := range a.Owners {
		owners = append(owners, Owner{
			Task: record.TaskID{SubTopology: o.Task.GetSubTopology(), Partition: o.Task.GetPartition()}, Member: o.Member, Endpoint: o.Endpoint, Intended: o.Intended,
		})
	}
	return owners, nil
}
