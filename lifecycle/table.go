package lifecycle

import (
	"fmt"
	"slices"
	"strings"
)

// State is what the four kinds of state have in common.
type State interface {
	~uint8
	fmt.Stringer
}

// Move is one arrow of a transition table.
type Move[S State] struct {
	From, To S
	// Why is the event that causes the move, in the words of docs/lifecycle.md.
	Why string
}

// Table is every legal move of one kind of state, in the order in which the diagram draws it.
type Table[S State] struct {
	Kind  string
	First S
	Moves []Move[S]
}

// Allows reports whether the table holds the move.
func (t Table[S]) Allows(from, to S) bool {
	return slices.ContainsFunc(t.Moves, func(m Move[S]) bool { return m.From == from && m.To == to })
}

// AllowsNamed reports whether the table holds the move between the states of these names.
func (t Table[S]) AllowsNamed(from, to string) bool {
	return slices.ContainsFunc(t.Moves, func(m Move[S]) bool { return m.From.String() == from && m.To.String() == to })
}

// Names are the names of the states, the first state's first.
func (t Table[S]) Names() []string {
	all := []string{t.First.String()}
	for _, m := range t.Moves {
		if name := m.To.String(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Diagram renders the table as a Mermaid state diagram.
func (t Table[S]) Diagram() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stateDiagram-v2\n    [*] --> %s\n", t.First)
	for _, m := range t.Moves {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", m.From, m.To, m.Why)
	}
	return b.String()
}

// Machine holds one state and moves it by its table only. It belongs to one goroutine.
type Machine[S State] struct {
	table *Table[S]
	name  string
	state S
}

// NewMachine starts in the table's first state; name appears in the panic of an illegal move.
func NewMachine[S State](table *Table[S], name string) *Machine[S] {
	return &Machine[S]{table: table, name: name, state: table.First}
}

// State returns the current state.
func (m *Machine[S]) State() S { return m.state }

// Can reports whether Become(to) is legal now.
func (m *Machine[S]) Can(to S) bool { return m.table.Allows(m.state, to) }

// Become moves to the given state. A move that the table does not hold is a bug and panics with both names.
func (m *Machine[S]) Become(to S) {
	if !m.Can(to) {
		panic(fmt.Sprintf("lifecycle: %s %s: invalid transition [%s -> %s]", m.table.Kind, m.name, m.state, to))
	}
	m.state = to
}
