package assign_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/record"
)

// While the application ends nobody gets and nobody gives up anything, whatever was claimed.
func TestShutdownMovesNothing(t *testing.T) {
	want := &assign.Shutdown{Node: "n1:1", Thread: "thread-2", Reason: "broken"}
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		in.Members[rapid.IntRange(0, len(in.Members)-1).Draw(t, "asks")].Shutdown = want
		plan, err := assign.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Shutdown != want || len(plan.Assignments) != len(in.Members) {
			t.Fatal(plan.Shutdown, len(plan.Assignments))
		}
		owner := map[record.TopicPartition]string{}
		for _, m := range in.Members {
			for _, tp := range plan.Assignments[m.ID].Partitions {
				held := false
				for _, o := range m.Owned {
					held = held || o == tp
				}
				if !held || owner[tp] != "" {
					t.Fatalf("%s is given to %s, after %q", tp, m.ID, owner[tp])
				}
				owner[tp] = m.ID
			}
		}
		for _, m := range in.Members {
			for _, tp := range m.Owned {
				if owner[tp] == "" && tp.Partition < in.Partitions[tp.Topic] {
					t.Fatalf("%s is taken from %s", tp, m.ID)
				}
			}
		}
	})
}

// The request reaches the leader in the user data and everybody in the assignment; a member that an assignment was not
// made for is not meant.
func TestShutdownTravels(t *testing.T) {
	want := &assign.Shutdown{Node: "n1:1", Thread: "thread-2", Reason: "broken"}
	asks, err := assign.DecodeSubscription("a", assign.EncodeMember(assign.Member{ProcessID: "p", Shutdown: want}, 7))
	if err != nil {
		t.Fatal(err)
	}
	in := assign.Input{Members: []assign.Member{asks, {ID: "b"}}, Sources: map[int32][]string{0: {"in"}}, Partitions: map[string]int32{"in": 2}}
	plan, err := assign.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	for member, heard := range map[string]*assign.Shutdown{"a": want, "b": want, "c": nil} {
		got, err := assign.DecodeShutdown(member, assign.EncodeAssignment(plan, "b"))
		if diff := cmp.Diff(heard, got); err != nil || diff != "" {
			t.Error(member, err, diff)
		}
	}
	in.Members[0].Shutdown = nil
	if plan, err = assign.Make(in); err != nil {
		t.Fatal(err)
	}
	if got, err := assign.DecodeShutdown("a", assign.EncodeAssignment(plan, "a")); got != nil || err != nil {
		t.Error(got, err)
	}
	if _, err := assign.DecodeShutdown("a", []byte{0xff}); err == nil {
		t.Error("no bytes of ours, and no error")
	}
}
