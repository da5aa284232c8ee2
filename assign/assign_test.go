package assign_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/record"
)

// group plays the cooperative protocol: each round every member takes what it is given, and gives up what it is not.
type group struct {
	members []assign.Member
	in      assign.Input
}

func (g *group) round(t interface{ Fatal(...any) }) (moved int) {
	g.in.Members = g.members
	plan, err := assign.Make(g.in)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[record.TopicPartition]string{}
	for i := range g.members {
		m := &g.members[i]
		a := plan.Assignments[m.ID]
		for _, tp := range a.Partitions {
			if owners[tp] != "" {
				t.Fatal("two owners of", tp, owners[tp], m.ID)
			}
			owners[tp] = m.ID
			for j := range g.members {
				if i != j && slices.Contains(g.members[j].Owned, tp) {
					t.Fatal(tp, "is given to", m.ID, "while", g.members[j].ID, "owns it")
				}
			}
		}
	}
	for i := range g.members {
		m := &g.members[i]
		for _, tp := range m.Owned {
			if !slices.Contains(plan.Assignments[m.ID].Partitions, tp) {
				moved++
			}
		}
		m.Owned = plan.Assignments[m.ID].Partitions
		m.Generation++
	}
	return moved
}

func (g *group) tasks() (n int) {
	for _, m := range g.members {
		n += len(m.Owned)
	}
	return n
}

func TestRoundsConvergeBalancedWithoutTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := int32(rapid.IntRange(1, 20).Draw(t, "partitions"))
		g := &group{in: assign.Input{Sources: map[int32][]string{0: {"a"}, 1: {"b"}}, Partitions: map[string]int32{"a": n, "b": n}}}
		for change := range rapid.IntRange(1, 6).Draw(t, "changes") {
			if len(g.members) > 1 && rapid.Bool().Draw(t, "leave") {
				g.members = slices.Delete(g.members, 0, 1)
			} else {
				g.members = append(g.members, assign.Member{ID: fmt.Sprint("m", change), ProcessID: fmt.Sprint("p", change%2)})
			}
			for range 2 { // the second round hands over what the first made free
				g.round(t)
			}
			if moved := g.round(t); moved > 0 {
				t.Fatal("a settled group moves tasks:", moved)
			}
			if g.tasks() != int(2*n) {
				t.Fatal("tasks without an owner:", g.tasks(), "of", 2*n)
			}
			least, most := int(2*n), 0
			for _, m := range g.members {
				least, most = min(least, len(m.Owned)), max(most, len(m.Owned))
			}
			if most-least > 1 {
				t.Fatal("not balanced:", least, most)
			}
		}
	})
}

func TestRestartedProcessGetsItsStateBack(t *testing.T) {
	in := assign.Input{Sources: map[int32][]string{0: {"a"}}, Partitions: map[string]int32{"a": 4}, Members: []assign.Member{
		{ID: "x", ProcessID: "1"}, {ID: "y", ProcessID: "2", Previous: []record.TaskID{{Partition: 0}, {Partition: 1}}},
	}}
	plan, err := assign.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Assignments["y"].Tasks; !slices.Equal(got, []record.TaskID{{Partition: 0}, {Partition: 1}}) {
		t.Fatal(got)
	}
}

func TestUnknownCountIsNamed(t *testing.T) {
	_, err := assign.Make(assign.Input{Sources: map[int32][]string{0: {"gone"}}})
	var missing *assign.MissingPartitionsError
	if !errors.As(err, &missing) || missing.Topic != "gone" {
		t.Fatal(err)
	}
}

func TestUserDataSurvives(t *testing.T) {
	b := assign.EncodeMember(assign.Member{ProcessID: "process", Endpoint: "host:1", Previous: []record.TaskID{{SubTopology: 1, Partition: 2}}}, 3)
	m, err := assign.DecodeSubscription("id", b)
	if err != nil || m.ProcessID != "process" || m.Endpoint != "host:1" || !slices.Equal(m.Previous, []record.TaskID{{SubTopology: 1, Partition: 2}}) {
		t.Fatal(m, err)
	}
	if _, err := assign.DecodeSubscription("id", []byte{0xff}); err == nil {
		t.Fatal("foreign bytes are accepted")
	}
}
