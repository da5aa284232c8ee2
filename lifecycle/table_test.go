package lifecycle

import (
	"fmt"
	"slices"
	"testing"
)

// finals are the states that a sentence in states.go calls final.
var (
	threadFinals = []Thread{ThreadNotRunning, ThreadError}
	nodeFinals   = []Node{NodeNotRunning, NodeError}
	taskFinals   = []Task{TaskClosed}
	storeFinals  = []Store{StoreClosed}
)

func TestTables(t *testing.T) {
	t.Run("thread", func(t *testing.T) { checkTable(t, &ThreadTable, ThreadError, threadFinals) })
	t.Run("node", func(t *testing.T) { checkTable(t, &NodeTable, NodeError, nodeFinals) })
	t.Run("task", func(t *testing.T) { checkTable(t, &TaskTable, TaskClosed, taskFinals) })
	t.Run("store", func(t *testing.T) { checkTable(t, &StoreTable, StoreClosed, storeFinals) })
}

// checkTable holds for every table whatever its states mean; last is the state with the highest number.
func checkTable[S State](t *testing.T, table *Table[S], last S, finals []S) {
	checkReachable(t, table, last)
	checkFinals(t, table, last, finals)
	checkMoves(t, table)
	checkBecome(t, table, last)
}

func checkReachable[S State](t *testing.T, table *Table[S], last S) {
	reached := reach(table, table.First)
	for s := range last + 1 {
		if !slices.Contains(reached, s) {
			t.Errorf("%s %v cannot be reached from %v", table.Kind, s, table.First)
		}
		if !slices.Contains(table.Names(), s.String()) {
			t.Errorf("%s %v is not among the names %v", table.Kind, s, table.Names())
		}
	}
	if n := len(table.Names()); n != len(reached) || table.Names()[0] != table.First.String() {
		t.Errorf("%s: %d states have the names %v", table.Kind, len(reached), table.Names())
	}
}

// checkFinals: final states have no exit, and from every other state a final one can be reached, so nothing is a trap.
func checkFinals[S State](t *testing.T, table *Table[S], last S, finals []S) {
	for s := range last + 1 {
		exits := slices.ContainsFunc(table.Moves, func(m Move[S]) bool { return m.From == s })
		if final := slices.Contains(finals, s); final == exits {
			t.Errorf("%s %v: final is %t, has exits is %t", table.Kind, s, final, exits)
		}
		ends := slices.ContainsFunc(reach(table, s), func(r S) bool { return slices.Contains(finals, r) })
		if !ends {
			t.Errorf("%s %v never comes to an end", table.Kind, s)
		}
	}
}

func checkMoves[S State](t *testing.T, table *Table[S]) {
	for i, m := range table.Moves {
		if m.Why == "" {
			t.Errorf("%s %v -> %v does not say why", table.Kind, m.From, m.To)
		}
		for _, other := range table.Moves[:i] {
			if other.From == m.From && other.To == m.To {
				t.Errorf("%s %v -> %v is in the table twice", table.Kind, m.From, m.To)
			}
		}
	}
}

// checkBecome tries every pair of states: those in the table move, all others panic with both names and do not move.
func checkBecome[S State](t *testing.T, table *Table[S], last S) {
	for from := range last + 1 {
		for to := range last + 1 {
			m := &Machine[S]{table: table, name: "x", state: from}
			got := recovered(func() { m.Become(to) })
			want, after := "", to
			if !table.Allows(from, to) {
				want = fmt.Sprintf("lifecycle: %s x: invalid transition [%v -> %v]", table.Kind, from, to)
				after = from
			}
			if got != want || m.State() != after {
				t.Errorf("%s %v -> %v: panic %q, state %v; want %q, %v", table.Kind, from, to, got, m.State(), want, after)
			}
			if table.AllowsNamed(from.String(), to.String()) != table.Allows(from, to) {
				t.Errorf("%s %v -> %v: the names are allowed another move", table.Kind, from, to)
			}
		}
	}
}

// reach is every state that can follow s, s included.
func reach[S State](table *Table[S], s S) []S {
	reached := []S{s}
	for i := 0; i < len(reached); i++ {
		for _, m := range table.Moves {
			if m.From == reached[i] && !slices.Contains(reached, m.To) {
				reached = append(reached, m.To)
			}
		}
	}
	return reached
}

func recovered(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func TestNewMachineStartsInTheFirstState(t *testing.T) {
	if s := NewMachine(&TaskTable, "1_0").State(); s != TaskCreated {
		t.Errorf("a new task is %v", s)
	}
}

func TestDeriveNode(t *testing.T) {
	for _, test := range []struct {
		threads []Thread
		want    Node
	}{
		{nil, NodeRebalancing},
		{[]Thread{ThreadCreated}, NodeRebalancing},
		{[]Thread{ThreadRunning}, NodeRunning},
		{[]Thread{ThreadRunning, ThreadRunning}, NodeRunning},
		{[]Thread{ThreadRunning, ThreadRebalancing}, NodeRebalancing},
		{[]Thread{ThreadRunning, ThreadError}, NodePendingError},
	} {
		if got := DeriveNode(test.threads); got != test.want {
			t.Errorf("DeriveNode(%v) = %v, want %v", test.threads, got, test.want)
		}
	}
}
