package millracetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
)

// Faults decides what happens at the points of package fault. Give its Hook to a node with millrace.WithFaults, and add
// rules at any time:
//
//	faults.At(fault.CommitEnd).Nth(3).Error(errDisk)
//	faults.At(fault.TaskProcess).Task(id).Times(2).Panic("boom")
//	release := faults.At(fault.StorePut).Store("counts").Block()
//
// The first rule that applies decides. A rule fires once unless Times or Always says otherwise.
//
// The mutex protects all of it: points are reached on every goroutine of a node, and the test adds rules meanwhile.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
	// planned are all that were ever in force.
	planned []*rule
	random  *rand.Rand
	reached map[fault.Point]int
	fired   map[fault.Point]int
	changed chan struct{}
	// paused is not nil while loops must wait; it is closed when they go on.
	paused chan struct{}
	// refused are the rules that were not put into force.
	refused []error
	// dying, if not nil, ends the node at the next point; dead says that it has ended, and nothing more happens.
	dying func()
	dead  bool
}

// NewFaults has no rules. The seed decides the rules that have a probability.
func NewFaults(seed uint64) *Faults {
	return &Faults{random: rand.New(rand.NewPCG(seed, seed)), reached: map[fault.Point]int{}, fired: map[fault.Point]int{}, changed: make(chan struct{})}
}

// Points are the points that there are.
func (*Faults) Points() []fault.Point { return fault.Points() }

// rule is one decision.
type rule struct {
	matches []func(fault.Site) bool
	// skip is how many times it lets pass, left how often it still fires; below 0 is for ever.
	skip, left int
	chance     float64
	act        func(fault.Site) error
	point      fault.Point
	fired      int
}

// At begins a rule for a point.
func (f *Faults) At(p fault.Point) *Rule {
	return &Rule{faults: f, rule: rule{point: p, left: 1, chance: 1, matches: []func(fault.Site) bool{func(s fault.Site) bool { return s.Point == p }}}}
}

// Rule is a rule that is not complete. Its last method, which says what happens, puts it into force.
type Rule struct {
	faults *Faults
	rule   rule
}

func (r *Rule) when(match func(fault.Site) bool) *Rule {
	r.rule.matches = append(r.rule.matches, match)
	return r
}

// Thread, Task and Store narrow the rule down to one of them.
func (r *Rule) Thread(name string) *Rule {
	return r.when(func(s fault.Site) bool { return s.Thread == name })
}

// Task narrows the rule down to a task.
func (r *Rule) Task(id record.TaskID) *Rule {
	return r.when(func(s fault.Site) bool { return s.Task == id })
}

// Store narrows the rule down to a store, by its name.
func (r *Rule) Store(name string) *Rule {
	return r.when(func(s fault.Site) bool { return s.Store == name })
}

// Where narrows the rule down by a function of the test's.
func (r *Rule) Where(match func(fault.Site) bool) *Rule { return r.when(match) }

// Nth lets the first n-1 times pass.
func (r *Rule) Nth(n int) *Rule { r.rule.skip = n - 1; return r }

// Times fires n times, Always for ever.
func (r *Rule) Times(n int) *Rule { r.rule.left = n; return r }

// Always fires for ever.
func (r *Rule) Always() *Rule { return r.Times(-1) }

// Chance fires with a probability between 0 and 1 each time, until it has fired as often as Times says.
func (r *Rule) Chance(p float64) *Rule { r.rule.chance = p; return r }

// Do calls a function; what it returns is the point's error. It may wait, panic, or take the node down.
func (r *Rule) Do(act func(fault.Site) error) {
	r.rule.act = act
	added := r.rule
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.rules = append(r.faults.rules, &added)
	r.faults.planned = append(r.faults.planned, &added)
}

// Error fails with an error.
func (r *Rule) Error(err error) { r.Do(func(fault.Site) error { return err }) }

// Panic panics with a value. At a point that cannot panic (fault.Point.CanPanic) the rule is refused: it is not in force, and
// AwaitFired, Refused and Check say why.
func (r *Rule) Panic(value any) {
	if !r.rule.point.CanPanic() {
		r.faults.mu.Lock()
		defer r.faults.mu.Unlock()
		r.faults.refused = append(r.faults.refused, fmt.Errorf("%w: %s", ErrCannotPanic, r.rule.point))
		return
	}
	r.Do(func(fault.Site) error { panic(value) })
}

// ErrCannotPanic is why a rule is refused.
var ErrCannotPanic = errors.New("nothing can panic at this point, which is reached on goroutines of Pebble's: use Error")

// Refused joins why rules were not put into force; nil if all were. Every error is an ErrCannotPanic.
func (f *Faults) Refused() error { return errors.Join(f.refusals()...) }

func (f *Faults) refusals() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refused)
}

// Delay waits, and goes on.
func (r *Rule) Delay(d time.Duration) {
	r.Do(func(fault.Site) error {
		t := time.NewTimer(d)
		defer t.Stop()
		<-t.C
		return nil
	})
}

// Block waits until release is called, and goes on. Release may be called more than once.
func (r *Rule) Block() (release func()) {
	gate := make(chan struct{})
	r.Do(func(fault.Site) error { <-gate; return nil })
	return sync.OnceFunc(func() { close(gate) })
}

// CrashBefore ends the node at the point, as a crash does: what the point is before does not happen, nothing that it sends
// arrives any more, and what its stores have not flushed is lost. Kill then waits until it is gone, and Again starts it.
func (r *Rule) CrashBefore(m *Member) {
	r.Do(func(fault.Site) error { m.crash(); return ErrCrashed })
}

// CrashAfter is CrashBefore at the next point that the node reaches: what this point is before still happens.
func (r *Rule) CrashAfter(m *Member) {
	r.Do(func(fault.Site) error {
		m.Faults.mu.Lock()
		defer m.Faults.mu.Unlock()
		m.Faults.dying = m.crash
		return nil
	})
}

// ErrCrashed is what everything fails with in a node that has crashed.
var ErrCrashed = errors.New("millracetest: the node has crashed")

// crashed says that the node has ended by a crash, or does so now.
func (f *Faults) crashed() bool {
	f.mu.Lock()
	crash, dead := f.dying, f.dead
	f.dying = nil
	f.mu.Unlock()
	if crash != nil {
		crash()
	}
	return dead || crash != nil
}

func (f *Faults) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// Clear takes every rule out of force. What waits goes on waiting.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Unfired are the points of the rules that were put into force and have never fired, cleared ones included: a test that has
// planned a fault which did not happen has tested nothing.
func (f *Faults) Unfired() (points []fault.Point) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.planned {
		if r.fired == 0 {
			points = append(points, r.point)
		}
	}
	return points
}

// Hook is what a node calls.
func (f *Faults) Hook() fault.Hook {
	return func(s fault.Site) error {
		f.pass(s)
		if f.crashed() && s.Point.CanPanic() { // the disk outlives the process
			return ErrCrashed
		}
		if act := f.decide(s); act != nil {
			return act(s)
		}
		return nil
	}
}

func (f *Faults) pause(paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case paused && f.paused == nil:
		f.paused = make(chan struct{})
	case !paused && f.paused != nil:
		close(f.paused)
		f.paused = nil
	}
}

// pass waits while the node is paused.
func (f *Faults) pass(s fault.Site) {
	f.mu.Lock()
	paused := f.paused
	f.mu.Unlock()
	if paused != nil && s.Point == fault.ThreadPoll {
		<-paused
	}
}

func (f *Faults) decide(s fault.Site) func(fault.Site) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached[s.Point]++
	for _, r := range f.rules {
		if r.applies(s, f.random) {
			f.fired[s.Point]++
			r.fired++
			close(f.changed)
			f.changed = make(chan struct{})
			return r.act
		}
	}
	return nil
}

func (r *rule) applies(s fault.Site, random *rand.Rand) bool {
	if r.left == 0 {
		return false
	}
	for _, match := range r.matches {
		if !match(s) {
			return false
		}
	}
	if r.skip > 0 {
		r.skip--
		return false
	}
	if r.chance < 1 && random.Float64() >= r.chance {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	return true
}

// Fired is how often rules for a point have fired, Reached how often the point was reached.
func (f *Faults) Fired(p fault.Point) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired[p]
}

// Reached is how often a point was reached.
func (f *Faults) Reached(p fault.Point) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached[p]
}

// AwaitFired waits until rules for a point have fired n times, and fails the test after the patience of Patience.
func (f *Faults) AwaitFired(tb TB, p fault.Point, n int) {
	tb.Helper()
	if err := f.Refused(); err != nil {
		tb.Fatalf("millracetest: a rule was refused: %v", err)
		return
	}
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		f.mu.Lock()
		fired, changed := f.fired[p], f.changed
		f.mu.Unlock()
		if fired >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			tb.Fatalf("millracetest: %s has fired %d times and not %d; it was reached %d times", p, fired, n, f.Reached(p))
		}
	}
}

// Patience is how long the kit waits for what a test expects before it fails the test.
const Patience = 60 * time.Second
