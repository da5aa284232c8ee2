package millracetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/record"
)

// Probe keeps what a node has published, every transition of the node, its threads, tasks and stores, and what it has
// answered to questions that were asked through its Member.
//
// The mutex protects events and replies: goroutines of the node and of the test add them, and the test reads.
type Probe struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	events  []millrace.Event
	changed chan struct{}
	replies []Reply
	// positions is up to where answers were, by store; back are those that were before.
	positions map[string]record.Position
	back      []Violation
}

func watch(m *Member) *Probe {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Probe{name: m.Name, cancel: cancel, ended: make(chan struct{}), changed: make(chan struct{})}
	events := m.Node.Events(ctx)
	go func() {
		defer close(p.ended)
		for e := range events {
			p.add(e)
		}
	}()
	return p
}

func (p *Probe) add(e millrace.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Probe) end() {
	p.cancel()
	<-p.ended
}

// Events are the events so far, or those of the actors whose path ends in one of the names.
func (p *Probe) Events(of ...string) (events []millrace.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if len(of) == 0 || slices.ContainsFunc(of, func(name string) bool { return named(e.Path, name) }) {
			events = append(events, e)
		}
	}
	return events
}

func named(path, name string) bool { return path == name || strings.HasSuffix(path, "/"+name) }

// States are the states that an actor has entered, in order. Its path ends in the name.
func (p *Probe) States(of string) (states []string) {
	for _, e := range p.Events(of) {
		if e.New != "" && e.New != e.Old {
			states = append(states, e.New)
		}
	}
	return states
}

// Saw says that an actor has entered the states in this order, perhaps with others between them. The path ends in the name:
// "thread-1" is a thread of the node, the application's id the node itself.
func (p *Probe) Saw(of string, states ...fmt.Stringer) bool {
	at := 0
	for _, s := range p.States(of) {
		if at < len(states) && s == states[at].String() {
			at++
		}
	}
	return at == len(states)
}

// AwaitSaw waits until Saw, and fails the test with the whole transcript if that does not come.
func (p *Probe) AwaitSaw(tb TB, of string, states ...fmt.Stringer) {
	tb.Helper()
	p.await(tb, fmt.Sprintf("%s has entered %v", of, states), func() bool { return p.Saw(of, states...) })
}

// Causes are the causes that an actor's events had.
func (p *Probe) Causes(of string) (causes []error) {
	for _, e := range p.Events(of) {
		if e.Err != nil {
			causes = append(causes, e.Err)
		}
	}
	return causes
}

// await looks at a condition at each event, and from time to time, as not all that a test may look at is told of.
func (p *Probe) await(tb TB, what string, holds func() bool) {
	tb.Helper()
	deadline, tick := time.NewTimer(Patience), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("millracetest: never: %s\n%s", what, p)
			return
		}
	}
}

// String is the transcript, one event a line.
func (p *Probe) String() string {
	var b strings.Builder
	events := p.Events()
	fmt.Fprintf(&b, "%s, %d events:\n", p.name, len(events))
	for _, e := range events {
		fmt.Fprintf(&b, "  %s %s", e.Time.Format("15:04:05.000"), e.Path)
		if e.Epoch > 0 {
			fmt.Fprintf(&b, " (%d)", e.Epoch)
		}
		fmt.Fprintf(&b, ": %s → %s", orNothing(e.Old), orNothing(e.New))
		if len(e.Flags) > 0 {
			fmt.Fprintf(&b, " %v", e.Flags)
		}
		if e.Cause != "" {
			fmt.Fprintf(&b, " because %s", e.Cause)
		}
		if e.Missed > 0 {
			fmt.Fprintf(&b, " [%d events before it were missed]", e.Missed)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func orNothing(state string) string {
	if state == "" {
		return "-"
	}
	return state
}
