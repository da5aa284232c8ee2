package assign_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/record"
)

// drawn is any input: members of a few processes, claims that may conflict or be of partitions that are gone.
func drawn(t *rapid.T) assign.Input {
	in := assign.Input{Sources: map[int32][]string{0: {"a"}, 1: {"b", "c"}}, Partitions: map[string]int32{}}
	for _, topic := range []string{"a", "b", "c"} {
		in.Partitions[topic] = int32(rapid.IntRange(1, 8).Draw(t, topic))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		m := assign.Member{ID: fmt.Sprint("m", i), ProcessID: fmt.Sprint("p", rapid.IntRange(0, 2).Draw(t, "process")), Generation: int32(rapid.IntRange(1, 3).Draw(t, "generation"))}
		for _, topic := range []string{"a", "b", "c"} {
			for p := range int32(9) {
				if rapid.IntRange(0, 5).Draw(t, "owned") == 0 {
					m.Owned = append(m.Owned, record.TopicPartition{Topic: topic, Partition: p})
				}
			}
		}
		for p := range int32(3) {
			if rapid.Bool().Draw(t, "previous") {
				m.Previous = append(m.Previous, record.TaskID{Partition: p})
			}
		}
		in.Members = append(in.Members, m)
	}
	return in
}

// TestAnyInput: whatever members claim, a partition goes to at most one of them, never past a holder of the newest
// generation, a task goes as a whole, and every task is somebody's now or is withheld for somebody.
func TestAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		plan, err := assign.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		holder, gen := map[record.TopicPartition]string{}, map[record.TopicPartition]int32{}
		for _, m := range in.Members {
			for _, tp := range m.Owned {
				if holder[tp] == "" || m.Generation > gen[tp] {
					holder[tp], gen[tp] = m.ID, m.Generation
				}
			}
		}
		given := map[record.TaskID]string{}
		targets := map[string]int{}
		for id, a := range plan.Assignments {
			for _, tp := range a.Partitions {
				if h := holder[tp]; h != "" && h != id {
					t.Fatalf("%s is given to %s past %s", tp, id, h)
				}
			}
			for _, task := range a.Tasks {
				if given[task] != "" {
					t.Fatal(task, "is given twice")
				}
				given[task] = id
			}
			if diff := cmp.Diff(partitionsOf(in, a.Tasks), a.Partitions); diff != "" {
				t.Fatal("not whole tasks:", diff)
			}
		}
		for _, o := range plan.Owners {
			to := o.Member
			if o.Intended != "" {
				to = o.Intended
			}
			targets[to]++
			if (o.Intended == "") != (given[o.Task] == o.Member) {
				t.Fatal("the owners do not say what the plan does:", o, given[o.Task])
			}
		}
		least, most := len(plan.Owners), 0
		for _, m := range in.Members {
			least, most = min(least, targets[m.ID]), max(most, targets[m.ID])
		}
		if most-least > 1 {
			t.Fatal("not balanced:", targets)
		}
	})
}

func partitionsOf(in assign.Input, tasks []record.TaskID) (tps []record.TopicPartition) {
	for _, task := range tasks {
		for _, topic := range in.Sources[task.SubTopology] {
			if task.Partition < in.Partitions[topic] {
				tps = append(tps, record.TopicPartition{Topic: topic, Partition: task.Partition})
			}
		}
	}
	return tps
}

func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		one, _ := assign.Make(in)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		in.Members = slices.Clone(in.Members)
		r.Shuffle(len(in.Members), func(i, j int) { in.Members[i], in.Members[j] = in.Members[j], in.Members[i] })
		// Two claims of one generation are a tie between ids, not between positions.
		two, _ := assign.Make(in)
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestNoMoreMovesThanBalanceNeeds: from any whole and disjoint ownership, a task moves only if its owner has too many.
func TestNoMoreMovesThanBalanceNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, members := rapid.IntRange(1, 30).Draw(t, "tasks"), rapid.IntRange(1, 6).Draw(t, "members")
		in := assign.Input{Sources: map[int32][]string{0: {"a"}}, Partitions: map[string]int32{"a": int32(n)}}
		for i := range members {
			in.Members = append(in.Members, assign.Member{ID: fmt.Sprint("m", i), ProcessID: fmt.Sprint("p", i%2), Generation: 1})
		}
		for p := range int32(n) {
			m := &in.Members[rapid.IntRange(0, members-1).Draw(t, "owner")]
			m.Owned = append(m.Owned, record.TopicPartition{Topic: "a", Partition: p})
		}
		plan, err := assign.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var had []int
		for _, m := range in.Members {
			had = append(had, len(m.Owned))
		}
		slices.SortFunc(had, func(a, b int) int { return b - a })
		needed := 0
		for i, h := range had { // the fullest members may keep one more
			limit := n / members
			if i < n%members {
				limit++
			}
			needed += max(0, h-limit)
		}
		moved := 0
		for _, o := range plan.Owners {
			if o.Intended != "" {
				moved++
			}
		}
		if moved != needed {
			t.Fatalf("%d tasks move, %d have to: %v", moved, needed, had)
		}
	})
}

func TestFewTasksSpreadOverProcesses(t *testing.T) {
	plan, err := assign.Make(assign.Input{
		Members:    []assign.Member{{ID: "1", ProcessID: "x"}, {ID: "2", ProcessID: "x"}, {ID: "3", ProcessID: "y"}},
		Sources:    map[int32][]string{0: {"a"}},
		Partitions: map[string]int32{"a": 2},
	})
	if err != nil || len(plan.Assignments["3"].Tasks) != 1 {
		t.Fatal(err, plan.Owners)
	}
}

func TestNewestStateGetsTheTask(t *testing.T) {
	task := record.TaskID{}
	old := assign.Member{ID: "1", Previous: []record.TaskID{task}, OffsetSums: map[record.TaskID]int64{task: 10}}
	newer := assign.Member{ID: "2", Previous: []record.TaskID{task}, OffsetSums: map[record.TaskID]int64{task: 20}}
	plan, err := assign.Make(assign.Input{Members: []assign.Member{old, newer}, Sources: map[int32][]string{0: {"a"}}, Partitions: map[string]int32{"a": 1}})
	if err != nil || plan.Owners[0].Member != "2" {
		t.Fatal(err, plan.Owners)
	}
}

func TestMemberSurvivesTheWire(t *testing.T) {
	task := record.TaskID{SubTopology: 1, Partition: 2}
	m := assign.Member{ID: "id", ProcessID: "p", Endpoint: "e", Previous: []record.TaskID{task}, OffsetSums: map[record.TaskID]int64{task: 5}, TransactionalID: "tx", Version: assign.Version}
	got, err := assign.DecodeSubscription("id", assign.EncodeMember(m, 1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Fatal(diff)
	}
	if slices.Equal(assign.EncodeMember(m, 1), assign.EncodeMember(m, 2)) {
		t.Fatal("two joins are the same bytes: a broker ignores the second")
	}
	for _, foreign := range [][]byte{nil, {0xff}, []byte("range")} {
		var e *assign.UserDataError
		if _, err := assign.DecodeSubscription("id", foreign); !errors.As(err, &e) || e.Member != "id" {
			t.Errorf("%q: %v", foreign, err)
		}
	}
}

func TestAssignmentOnTheWire(t *testing.T) {
	in := assign.Input{Sources: map[int32][]string{0: {"a"}}, Partitions: map[string]int32{"a": 2}, Members: []assign.Member{
		{ID: "1", Endpoint: "e1", TransactionalID: "t1", Version: 9, Owned: []record.TopicPartition{{Topic: "a"}, {Topic: "a", Partition: 1}}}, {ID: "2", Endpoint: "e2", TransactionalID: "t2"},
	}}
	plan, err := assign.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Version != assign.Version {
		t.Error("not the lowest version:", plan.Version)
	}
	b := assign.EncodeAssignment(plan, "1")
	owners, err := assign.DecodeOwners(b)
	want := []assign.Owner{{Task: record.TaskID{}, Member: "1", Endpoint: "e1"}, {Task: record.TaskID{Partition: 1}, Member: "1", Endpoint: "e1", Intended: "2"}}
	if diff := cmp.Diff(want, owners); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if ids, err := assign.TransactionalIDs(b); err != nil || !slices.Equal(ids, []string{"t1", "t2"}) {
		t.Error(ids, err)
	}
	var e *assign.UserDataError
	if _, err := assign.DecodeOwners([]byte{0xff}); !errors.As(err, &e) {
		t.Error(err)
	}
}

// What a restarted static member is handed is its predecessor's, and it is the leader's business only if something differs.
func TestStaleAssignment(t *testing.T) {
	of := func(tp record.TopicPartition) []record.TopicPartition { return []record.TopicPartition{tp} }
	a0, a1 := record.TopicPartition{Topic: "a"}, record.TopicPartition{Topic: "a", Partition: 1}
	t0, t1 := record.TaskID{}, record.TaskID{Partition: 1}
	encoded := func(member string, change func(in *assign.Input), after func(p *assign.Plan)) []byte {
		in := assign.Input{Sources: map[int32][]string{0: {"a"}}, Partitions: map[string]int32{"a": 2}, Members: []assign.Member{
			{ID: "1", Endpoint: "e1", Owned: of(a0)}, {ID: "2", Endpoint: "e2", Owned: of(a1)}, {ID: "3", Endpoint: "e3"},
		}}
		change(&in)
		plan, err := assign.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		after(plan)
		return assign.EncodeAssignment(plan, member)
	}
	asIs, then := func(*assign.Input) {}, func(*assign.Plan) {}
	read := func(topics ...string) func(record.TaskID) []record.TopicPartition {
		return func(id record.TaskID) (tps []record.TopicPartition) {
			for _, topic := range topics {
				tps = append(tps, record.TopicPartition{Topic: topic, Partition: id.Partition})
			}
			return tps
		}
	}
	both := []record.TaskID{t1, t0}
	for name, c := range map[string]struct {
		now   assign.Present
		data  []byte
		stale bool
	}{
		"as before":                  {assign.Present{"e1", both, read("a"), of(a0)}, encoded("1", asIs, then), false},
		"another endpoint":           {assign.Present{"e9", both, read("a"), of(a0)}, encoded("1", asIs, then), true},
		"nothing to do":              {assign.Present{"e9", both, read("a"), nil}, encoded("3", asIs, then), false},
		"more tasks":                 {assign.Present{"e1", append(both, record.TaskID{SubTopology: 1}), read("a"), of(a0)}, encoded("1", asIs, then), true},
		"fewer tasks":                {assign.Present{"e1", both[:1], read("a"), of(a0)}, encoded("1", asIs, then), true},
		"a topic more":               {assign.Present{"e1", both, read("a", "b"), of(a0)}, encoded("1", asIs, then), true},
		"another topic":              {assign.Present{"e1", both, read("b"), of(a0)}, encoded("1", asIs, then), true},
		"others' partitions":         {assign.Present{"e1", both, read("a"), of(a1)}, encoded("1", asIs, then), true},
		"a task on its way":          {assign.Present{"e3", both, read("a"), nil}, encoded("3", func(in *assign.Input) { in.Members[0].Owned, in.Members[1].Owned = append(of(a0), a1), nil }, then), true},
		"another version":            {assign.Present{"e1", both, read("a"), of(a0)}, encoded("1", asIs, func(p *assign.Plan) { p.Version++ }), true},
		"an end that was asked for":  {assign.Present{"e1", both, read("a"), of(a0)}, encoded("1", asIs, func(p *assign.Plan) { p.Shutdown = &assign.Shutdown{Node: "e2"} }), true},
		"nobody's":                   {assign.Present{"e1", both, read("a"), nil}, nil, true},
		"what another program wrote": {assign.Present{"e1", both, read("a"), of(a0)}, []byte{0xff}, true},
	} {
		if got := assign.Stale(c.now, c.data); got != c.stale {
			t.Errorf("%s: stale %t", name, got)
		}
	}
}
