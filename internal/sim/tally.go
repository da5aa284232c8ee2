package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// tally is what has happened, in one run or in many.
type tally struct {
	Seeds, Counted, Violations                                          int
	Events, Steps, Requests, Producers                                  int
	Nodes, Tasks, Records                                               int
	Commits, Aborts, TimedOut, Fences, Crashes, CommitCrashes, Restarts int
	Generations, Expired, CameBack, Transitions                         int
	Opens, Aside, Restored, Flushes                                     int
	Queries, Answers, Unanswered, Stale                                 int
	Planned, Fired                                                      map[kind]int
	Points, Failures                                                    map[string]int
	Virtual                                                             time.Duration
}

func newTally() tally {
	return tally{Planned: map[kind]int{}, Fired: map[kind]int{}, Points: map[string]int{}, Failures: map[string]int{}}
}

// disk is how many disk faults have fired.
func (t *tally) disk() int {
	return t.Fired[kindDiskError] + t.Fired[kindDiskFull] + t.Fired[kindDamage]
}

func (t *tally) faults() (n int) {
	for _, v := range t.Fired {
		n += v
	}
	return n
}

// rebalances are what ends in another generation.
func (t *tally) rebalances() int { return t.Generations }

// counts says that a run was one that proves something.
func (t *tally) counts() bool {
	return t.Nodes >= 3 && t.Tasks >= 4 && t.Records >= 300 && t.faults() >= leastFaults && t.CommitCrashes >= 1 && t.rebalances() >= 1 && t.Queries >= 100
}

func (t *tally) add(o *tally) {
	t.Seeds += o.Seeds
	t.Counted += o.Counted
	t.Violations += o.Violations
	for _, p := range [...][2]*int{
		{&t.Events, &o.Events}, {&t.Steps, &o.Steps}, {&t.Requests, &o.Requests}, {&t.Producers, &o.Producers}, {&t.Nodes, &o.Nodes}, {&t.Tasks, &o.Tasks},
		{&t.Records, &o.Records}, {&t.Commits, &o.Commits}, {&t.Aborts, &o.Aborts}, {&t.TimedOut, &o.TimedOut}, {&t.Fences, &o.Fences}, {&t.Crashes, &o.Crashes},
		{&t.CommitCrashes, &o.CommitCrashes}, {&t.Restarts, &o.Restarts}, {&t.Generations, &o.Generations}, {&t.Expired, &o.Expired}, {&t.CameBack, &o.CameBack},
		{&t.Transitions, &o.Transitions}, {&t.Opens, &o.Opens}, {&t.Aside, &o.Aside}, {&t.Restored, &o.Restored}, {&t.Flushes, &o.Flushes},
		{&t.Queries, &o.Queries}, {&t.Answers, &o.Answers}, {&t.Unanswered, &o.Unanswered}, {&t.Stale, &o.Stale},
	} {
		*p[0] += *p[1]
	}
	sum(t.Planned, o.Planned)
	sum(t.Fired, o.Fired)
	sum(t.Points, o.Points)
	sum(t.Failures, o.Failures)
	t.Virtual += o.Virtual
}

func sum[K comparable](to, from map[K]int) {
	for k, v := range from {
		to[k] += v
	}
}

// silent are kinds that never fired; of all, if only names none.
func (t *tally) silent(only []kind) (names []string) {
	for i := range kinds {
		if k := kind(i + 1); t.Fired[k] == 0 && (len(only) == 0 || slices.Contains(only, k)) {
			names = append(names, k.String())
		}
	}
	return names
}

// rarest is the kind that has fired least, of those that were planned; 0 if none was.
func (t *tally) rarest() (rare kind) {
	for i := range kinds {
		if k := kind(i + 1); t.Planned[k] > 0 && (rare == 0 || t.Fired[k] < t.Fired[rare]) {
			rare = k
		}
	}
	return rare
}

// print writes the figures.
func (t *tally) print(out io.Writer, took time.Duration) {
	perHour := float64(t.Seeds) / took.Hours()
	fmt.Fprintf(out, "seeds=%d counted=%d faults=%d commits=%d crashes=%d violations=%d seeds_per_hour=%.0f\n", t.Seeds, t.Counted, t.faults(), t.Commits, t.Crashes, t.Violations, perHour)
	n := float64(max(t.Seeds, 1))
	mean := func(v int) float64 { return float64(v) / n }
	fmt.Fprintf(out, "mean of a seed: nodes=%.1f tasks=%.1f records=%.0f faults=%.1f commits=%.0f aborts=%.1f crashes=%.2f commit_crashes=%.2f generations=%.1f restarts=%.1f queries=%.0f values=%.0f\n",
		mean(t.Nodes), mean(t.Tasks), mean(t.Records), mean(t.faults()), mean(t.Commits), mean(t.Aborts), mean(t.Crashes), mean(t.CommitCrashes), mean(t.Generations), mean(t.Restarts), mean(t.Queries), mean(t.Answers))
	fmt.Fprintf(out, "  events=%.0f steps=%.0f requests=%.0f virtual_seconds=%.0f state_opened=%.1f moved_aside=%.2f restored_records=%.0f flushes=%.1f sessions_over=%.2f static_returns=%.2f fences=%.2f transactions_timed_out=%.2f\n",
		mean(t.Events), mean(t.Steps), mean(t.Requests), t.Virtual.Seconds()/n, mean(t.Opens), mean(t.Aside), mean(t.Restored), mean(t.Flushes), mean(t.Expired), mean(t.CameBack), mean(t.Fences), mean(t.TimedOut))
	for i, k := range kinds {
		fmt.Fprintf(out, "  fault %-30s fired=%-6d planned=%d\n", k.name, t.Fired[kind(i+1)], t.Planned[kind(i+1)])
	}
	rare := t.rarest()
	fmt.Fprintf(out, "  the rarest of these has fired %d times: %s\n", t.Fired[rare], rare)
	for _, p := range slices.Sorted(maps.Keys(t.Points)) {
		fmt.Fprintf(out, "  crash at %-27s %d\n", p, t.Points[p])
	}
	for _, k := range slices.Sorted(maps.Keys(t.Failures)) {
		fmt.Fprintf(out, "  failure %-28s %d\n", k, t.Failures[k])
	}
}

// encode and decode carry a tally from a child to its parent.
func (t *tally) encode() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func decodeTally(s string) (t tally, err error) {
	t = newTally()
	err = json.Unmarshal([]byte(s), &t)
	return t, err
}
