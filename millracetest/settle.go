package millracetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// states waits until the members are done and RUNNING, and looks at what they have published.
func (c *checking) states() {
	for _, m := range c.cluster.live() {
		if err := m.Node.Drain(c.ctx); err != nil {
			c.report(NotRunning, m.Name, "everything is processed", err.Error())
			continue
		}
		c.member = m
		for {
			found := c.declared(m, m.Tree())
			if len(found) == 0 || !c.waits() {
				c.found = append(c.found, found...)
				break
			}
		}
	}
	if c.member == nil {
		c.report(NotRunning, "the cluster", "a member that runs", nothing)
	}
	for _, m := range c.cluster.members {
		for _, e := range m.probe.Events() {
			if e.Old != "" && e.New != "" && e.Old != e.New && !legal(e.Kind, e.Old, e.New) {
				c.report(Undeclared, m.Name+e.Path, "a transition of the table", e.Old+" → "+e.New)
			}
		}
	}
}

// waits waits a little; false means that the patience is over.
func (c *checking) waits() bool {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	select {
	case <-ticker.C:
		return true
	case <-c.deadline:
		return false
	}
}

// declared looks at an actor's state, and at those below it.
func (c *checking) declared(m *Member, a millrace.Actor) (found []Violation) {
	switch names := statesOf(a.Kind); {
	case names == nil:
	case !slices.Contains(names, a.State):
		found = append(found, Violation{Undeclared, m.Name + a.Path, fmt.Sprintf("one of %v", names), orNothing(a.State)})
	case a.Kind == millrace.KindNode && a.State != lifecycle.NodeRunning.String(), a.Kind == millrace.KindThread && a.State != lifecycle.ThreadRunning.String():
		found = append(found, Violation{NotRunning, m.Name + a.Path, "RUNNING", a.State})
	}
	for _, child := range a.Children {
		found = append(found, c.declared(m, child)...)
	}
	return found
}

// statesOf are the states of a kind, nil for what has none.
func statesOf(kind string) []string {
	switch kind {
	case millrace.KindNode:
		return namesOf(&lifecycle.NodeTable)
	case millrace.KindThread:
		return namesOf(&lifecycle.ThreadTable)
	case millrace.KindTask:
		return namesOf(&lifecycle.TaskTable)
	case millrace.KindStore:
		return namesOf(&lifecycle.StoreTable)
	}
	return nil
}

func namesOf[S lifecycle.State](t *lifecycle.Table[S]) []string {
	all := []string{t.First.String()}
	for _, m := range t.Moves {
		all = append(all, m.To.String())
	}
	return all
}

// legal says that a table holds a move.
func legal(kind, from, to string) bool {
	switch kind {
	case millrace.KindNode:
		return holds(&lifecycle.NodeTable, from, to)
	case millrace.KindThread:
		return holds(&lifecycle.ThreadTable, from, to)
	case millrace.KindTask:
		return holds(&lifecycle.TaskTable, from, to)
	case millrace.KindStore:
		return holds(&lifecycle.StoreTable, from, to)
	}
	return true
}

func holds[S lifecycle.State](t *lifecycle.Table[S], from, to string) bool {
	return slices.ContainsFunc(t.Moves, func(m lifecycle.Move[S]) bool { return m.From.String() == from && m.To.String() == to })
}

// settleEvery is how often the cluster is asked whether it has come to rest.
const settleEvery = 20 * time.Millisecond

// ends waits until the group has committed the end of each source, and no transaction holds any topic up.
func (c *checking) ends() {
	counts, err := c.counts(c.topology.Bind(c.cluster.app))
	if err != nil {
		c.report(Unknown, "the topics", "they can be read", err.Error())
		return
	}
	var tps []record.TopicPartition
	for topic, n := range counts {
		for p := range n {
			tps = append(tps, record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	slices.SortFunc(tps, func(a, b record.TopicPartition) int { return strings.Compare(a.String(), b.String()) })
	for {
		found := c.unsettled(tps)
		if len(found) == 0 || !c.waits() {
			c.found = append(c.found, found...)
			return
		}
	}
}

// unsettled is what is behind, or held up, at this moment.
func (c *checking) unsettled(tps []record.TopicPartition) (found []Violation) {
	whole, err := c.cluster.admin.Ends(c.ctx, tps, false)
	if err != nil {
		return []Violation{{Unknown, "the topics", "they can be read", err.Error()}}
	}
	stable, err := c.cluster.admin.Ends(c.ctx, tps, true)
	if err != nil {
		return []Violation{{Unknown, "the topics", "they can be read", err.Error()}}
	}
	sources := c.sources(tps)
	committed, err := c.cluster.admin.CommittedOffsets(c.ctx, c.cluster.app, sources)
	if err != nil {
		return []Violation{{Unknown, "the group's offsets", "they can be read", err.Error()}}
	}
	for _, tp := range tps {
		end := whole[tp].HighWatermark
		if at := stable[tp].HighWatermark; at < end {
			found = append(found, Violation{OpenTransaction, tp.String(), fmt.Sprint(end, " is stable"), fmt.Sprint(at)})
		}
		at := committed[tp].At
		if slices.Contains(sources, tp) && end > whole[tp].Start && at != end && (at != broker.None || end > 0) {
			found = append(found, Violation{Behind, tp.String(), fmt.Sprint(end, " is committed"), fmt.Sprint(at)})
		}
	}
	return found
}

// sources are those of the partitions that tasks read.
func (c *checking) sources(tps []record.TopicPartition) (sources []record.TopicPartition) {
	for _, tp := range tps {
		for _, s := range c.topology.Bind(c.cluster.app).SubTopologies {
			for _, src := range s.Sources {
				if src.Topic == tp.Topic {
					sources = append(sources, tp)
				}
			}
		}
	}
	return sources
}

// faults are the rules that have never fired.
func (c *checking) faults() {
	for _, m := range c.cluster.members {
		for _, p := range m.Faults.Unfired() {
			c.report(Vacuous, m.Name+", "+string(p), "the fault fires", "it was never reached")
		}
	}
}

// answers are those whose position went back.
func (c *checking) answers() {
	for _, m := range c.cluster.members {
		c.found = append(c.found, m.probe.backwards()...)
	}
}
