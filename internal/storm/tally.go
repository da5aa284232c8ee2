package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query"
)

// tally is the figures of one client or of all.
type tally struct {
	queries, values, untyped, late, lies int
	kinds                                map[query.Kind]int
	buckets                              []bucket
	// served is when the last question of each partition began that ended in a value.
	served [partitions]time.Duration
	notes  []string
}

// mostNotes is how many wrong answers are shown.
const mostNotes = 20

func (t *tally) note(format string, args ...any) {
	if len(t.notes) < mostNotes {
		t.notes = append(t.notes, fmt.Sprintf(format, args...))
	}
}

func (t *tally) add(o *tally) {
	t.queries += o.queries
	t.values += o.values
	t.untyped += o.untyped
	t.late += o.late
	t.lies += o.lies
	if t.kinds == nil {
		t.kinds = map[query.Kind]int{}
	}
	for k, n := range o.kinds {
		t.kinds[k] += n
	}
	for p, at := range o.served {
		t.served[p] = max(t.served[p], at)
	}
	for i, b := range o.buckets {
		if i == len(t.buckets) {
			t.buckets = append(t.buckets, bucket{})
		}
		t.buckets[i].add(b)
	}
	for _, n := range o.notes {
		t.note("%s", n)
	}
}

// String is the line that a run prints.
func (t *tally) String() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(t.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s:%d", k, t.kinds[k]))
	}
	return fmt.Sprintf("queries=%d values=%d failures_by_kind=%s untyped=%d late=%d lies=%d", t.queries, t.values, strings.Join(kinds, ","), t.untyped, t.late, t.lies)
}

// shadow is how long after a fault failures are expected.
const shadow = 15 * time.Second

// calm is the questions that neither began in the shadow of a fault nor could still be under way when one came. Times are
// since the origin of the buckets.
func (t *tally) calm(faults []time.Duration, limit time.Duration) (all bucket) {
	for i, b := range t.buckets {
		from := time.Duration(i) * span
		if !slices.ContainsFunc(faults, func(f time.Duration) bool { return from+span+limit > f && from < f+shadow }) {
			all.add(b)
		}
	}
	return all
}

// complaints are the demands that a run does not meet.
func (t *tally) complaints(faults []time.Duration, limit, lasted time.Duration, least int) (all []string) {
	complain := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	complain(t.untyped > 0, "%d answers were neither a value nor a typed failure", t.untyped)
	complain(t.late > 0, "%d answers came more than %s after their deadline", t.late, grace)
	complain(t.lies > 0, "%d values were wrong", t.lies)
	complain(t.kinds[query.StreamThreadRebalancing]+t.kinds[query.StateStoreMigrated] == 0, "no question met a rebalance: nothing was tried")
	rate := float64(t.queries) / lasted.Seconds()
	complain(rate < float64(least), "%.0f questions per second, want %d", rate, least)
	for p, at := range t.served {
		// What the killed node itself has answered in its last moment began before its end.
		complain(len(faults) > 0 && at < faults[len(faults)-1]+limit, "no question of partition %d ended in a value after the last fault", p)
	}
	calm := t.calm(faults, limit)
	complain(calm.queries == 0, "no question was asked outside the shadow of a fault")
	complain(calm.values*100 < calm.queries*99, "outside the shadow of faults %d of %d were values, want 99 %%", calm.values, calm.queries)
	complain(calm.overloaded*100 > calm.queries, "outside the shadow of faults %d of %d were Overloaded, want 1 %% at most", calm.overloaded, calm.queries)
	complain(calm.exceeded*1000 > calm.queries, "outside the shadow of faults %d of %d were DeadlineExceeded, want 0.1 %% at most", calm.exceeded, calm.queries)
	return all
}
