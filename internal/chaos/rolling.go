package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/query"
)

// roll is what a rolling restart has shown.
type roll struct {
	restarts []restart
	callers  []*caller
	// moved is how many tasks were on another node after a restart: staying in the group moves none.
	moved, duplicates, losses int
	lag                       int64
}

// restart is one node's: what the callers waited for the next value at most, and where the time went.
type restart struct {
	node string
	// ending is from SIGTERM to the end of the process, down from there to the start of the next, back from there until all
	// nodes run and share the tasks as before.
	ending, down, back time.Duration
	// longest is the longest that a caller went without a value.
	longest gap
}

func (r restart) beyond() time.Duration { return r.longest.length() - r.down }

const (
	// calm is how long things are left alone before a restart.
	calm = 2 * time.Second
	// warm is how long before the first one: brokers that have only just started take seconds for what they do in
	// milliseconds when their code is compiled.
	warm = 10 * time.Second
)

// addresses are where the nodes answer questions, if anybody asks.
func (r *run) addresses() ([]string, error) {
	all := make([]string, members)
	if r.roll == nil {
		return all, nil
	}
	ports, err := realkafka.FreePorts(members)
	if err != nil {
		return nil, err
	}
	for i, port := range ports {
		all[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return all, nil
}

// restartInTurn restarts node after node, each with its state and staying in the group, while every partition is asked through
// every node.
func (r *run) restartInTurn(ctx context.Context) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	callers, end, err := r.call(asking)
	if err != nil {
		return err
	}
	defer func() { stop(); end() }()
	r.roll.callers = callers
	if err := r.await(ctx, "every caller to get a value", advanceLimit, r.answered(time.Now())); err != nil {
		return err
	}
	if err := r.pause(ctx, warm-calm); err != nil {
		return err
	}
	for i := range r.cycles {
		if err := r.pause(ctx, calm); err != nil {
			return err
		}
		if err := r.restartOne(ctx, r.nodes[i%members]); err != nil {
			return err
		}
		r.totals.Restarts++
	}
	return r.pause(ctx, calm)
}

func (r *run) restartOne(ctx context.Context, n *node) error {
	before, err := owned(ctx, r.nodes)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := n.end(ctx, false); err != nil {
		return err
	}
	gone := time.Now()
	if err := r.pause(ctx, r.down); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	started := time.Now()
	if err := r.await(ctx, "three running nodes that share the tasks", runningLimit, r.running); err != nil {
		return err
	}
	back := time.Now()
	if err := r.await(ctx, "every caller to get a value", advanceLimit, r.answered(back)); err != nil {
		return err
	}
	if err := r.await(ctx, "the committed offsets to pass the restart", advanceLimit, r.passed()); err != nil {
		return err
	}
	after, err := owned(ctx, r.nodes)
	if err != nil {
		return err
	}
	for id, name := range after {
		if before[id] != name {
			r.roll.moved++
		}
	}
	one := restart{node: n.name(), ending: gone.Sub(began), down: started.Sub(gone), back: back.Sub(started), longest: r.roll.longest(began, back)}
	r.roll.restarts = append(r.roll.restarts, one)
	r.say("%s ended in %s, was away for %s and was back %s later; without a value for %s at most: %s", one.node, millis(one.ending), millis(one.down),
		millis(one.back), millis(one.longest.length()), one.longest)
	return nil
}

// owned says which node has which task.
func owned(ctx context.Context, nodes []*node) (map[string]string, error) {
	all := map[string]string{}
	for _, n := range nodes {
		s, err := n.status(ctx)
		if err != nil {
			return nil, err
		}
		for _, id := range s.Owned {
			all[id] = n.name()
		}
	}
	return all, nil
}

// answered is nil when each caller has got a value after a time.
func (r *run) answered(after time.Time) func(context.Context) error {
	return func(context.Context) error {
		for _, c := range r.roll.callers {
			if last, err := c.lastValue(); !last.After(after) {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	}
}

// longest is the longest gap that began or ended between two times.
func (r *roll) longest(from, to time.Time) (most gap) {
	for _, c := range r.callers {
		for _, g := range c.all() {
			if g.to.After(from) && g.from.Before(to) && g.length() > most.length() {
				most = g
			}
		}
	}
	return most
}

// judge takes down what the end has shown.
func (r *roll) judge(w oracle.World, violations []oracle.Violation) {
	for _, v := range violations {
		switch v.Rule {
		case oracle.Doubled, oracle.InputDoubled, oracle.StoreOver, oracle.ServedTwice:
			r.duplicates++
		case oracle.Lost, oracle.InputLost, oracle.StoreFold, oracle.SeenUndone, oracle.SeenMissed, oracle.Unserved:
			r.losses++
		}
	}
	for _, o := range w.Offsets {
		r.lag += o.End - o.Committed
	}
}

// worst is the restart after which a partition was refused for longest beyond what its process was away.
func (r *roll) worst() (w restart) {
	for i, one := range r.restarts {
		if i == 0 || one.beyond() > w.beyond() {
			w = one
		}
	}
	return w
}

// kinds adds up how questions failed.
func (r *roll) kinds() (all map[query.Kind]int, questions int, untyped error) {
	all = map[query.Kind]int{}
	for _, c := range r.callers {
		c.mu.Lock()
		questions += c.questions
		for k, n := range c.kinds {
			all[k] += n
		}
		untyped = errors.Join(untyped, c.untyped)
		c.mu.Unlock()
	}
	return all, questions, untyped
}

// concludeRolling prints the line of a rolling restart and gives the exit code.
func (r *run) concludeRolling(violations []oracle.Violation, err error) int {
	kinds, questions, untyped := r.roll.kinds()
	worst := r.roll.worst()
	complaints := []error{err, untyped}
	complain := func(bad bool, format string, args ...any) {
		if bad {
			complaints = append(complaints, fmt.Errorf(format, args...))
		}
	}
	complain(len(violations) > 0, "%d violations", len(violations))
	complain(r.roll.lag > 0, "a lag of %d is left", r.roll.lag)
	complain(r.roll.moved > 0, "%d tasks were on another node after a restart", r.roll.moved)
	complain(err == nil && worst.longest.length() < worst.down, "no caller missed the node that was away: nothing was tried")
	complain(worst.beyond() > r.beyond, "%s: a partition was refused for %s, %s beyond the %s that the process was away; %s is allowed",
		worst.node, millis(worst.longest.length()), millis(worst.beyond()), millis(worst.down), r.beyond)
	for k := range kinds {
		complain(k.Retry() == query.Never, "%d questions were blamed for what the nodes did: %s", kinds[k], k)
	}
	failed := errors.Join(complaints...)
	if failed != nil {
		r.say("WRONG: %v", failed)
	}
	fmt.Printf("restarts=%d records=%d duplicates=%d losses=%d violations=%d lag=%d moved=%d questions=%d down=%s refused_longest=%s beyond=%s failures_by_kind=%s\n",
		len(r.roll.restarts), r.totals.Records, r.roll.duplicates, r.roll.losses, len(violations), r.roll.lag, r.roll.moved, questions,
		millis(worst.down), millis(worst.longest.length()), millis(worst.beyond()), counted(kinds))
	return r.tidy(failed != nil)
}

func millis(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
