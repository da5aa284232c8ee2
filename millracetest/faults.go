package millracetest

import (
	"math/rand/v2"
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
	mu      sync.Mutex
	rules   []*rule
	random  *rand.Rand
	reached map[fault.Point]int
	fired   map[fault.Point]int
	changed chan struct{}
	// paused is not nil while loops must wait; it is closed when they go on.
	paused chan struct{}
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
}

// At begins a rule for a point.
func (f *Faults) At(p fault.Point) *Rule {
	return &Rule{faults: f, rule: rule{left: 1, chance: 1, matches: []func(fault.Site) bool{func(s fault.Site) bool { return s.Point == p }}}}
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
}

// Error fails with an error.
func (r *Rule) Error(err error) { r.Do(func(fault.Site) error { return err }) }

// Panic panics with a value.
func (r *Rule) Panic(value any) { r.Do(func(fault.Site) error { panic(value) }) }

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

// Clear takes every rule out of force. What waits goes on waiting.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Hook is what a node calls.
func (f *Faults) Hook() fault.Hook {
	return func(s fault.Site) error {
		f.pass(s)
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
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		f.mu.Lock()
		fired, reached, changed := f.fired[p], f.reached[p], f.changed
		f.mu.Unlock()
		if fired >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			tb.Fatalf("millracetest: %s has fired %d times and not %d; it was reached %d times", p, fired, n, reached)
		}
	}
}

// Patience is how long the kit waits for what a test expects before it fails the test.
const Patience = 60 * time.Second
