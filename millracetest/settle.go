package millracetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/plan"
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
			c.transition(m, e)
		}
	}
}

// transition looks at what has changed state.
func (c *checking) transition(m *Member, e millrace.Event) {
	if t := tables[e.Kind]; t != nil && e.Old != "" && e.New != "" && e.Old != e.New && !t.AllowsNamed(e.Old, e.New) {
		c.report(Undeclared, m.Name+e.Path, "a transition of the table", e.Old+" → "+e.New)
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
	switch t := tables[a.Kind]; {
	case t == nil:
	case !slices.Contains(t.Names(), a.State):
		found = append(found, Violation{Undeclared, m.Name + a.Path, fmt.Sprintf("one of %v", t.Names()), orNothing(a.State)})
	case a.Kind == millrace.KindNode && a.State != lifecycle.NodeRunning.String(), a.Kind == millrace.KindThread && a.State != lifecycle.ThreadRunning.String():
		found = append(found, Violation{NotRunning, m.Name + a.Path, "RUNNING", a.State})
	}
	for _, child := range a.Children {
		found = append(found, c.declared(m, child)...)
	}
	return found
}

// table is what is asked of a lifecycle.Table.
type table interface {
	Names() []string
	AllowsNamed(from, to string) bool
}

// tables are those of the kinds that have states.
var tables = map[string]table{
	millrace.KindNode: lifecycle.NodeTable, millrace.KindThread: lifecycle.ThreadTable,
	millrace.KindTask: lifecycle.TaskTable, millrace.KindStore: lifecycle.StoreTable,
}

// settleEvery is how often the cluster is asked whether it has come to rest.
const settleEvery = 20 * time.Millisecond

// ends waits until the group has committed the end of each source, and no transaction holds any topic up.
func (c *checking) ends() {
	counts, err := c.counts()
	if err != nil {
		c.report(Unknown, "the topics", "they can be read", err.Error())
		return
	}
	p := plan.New(c.cluster.app, c.bound, counts)
	var tps, sources []record.TopicPartition
	for topic, n := range counts {
		for i := range n {
			tps = append(tps, record.TopicPartition{Topic: topic, Partition: i})
		}
		if p.Reader(topic) != nil {
			sources = append(sources, tps[len(tps)-int(n):]...)
		}
	}
	slices.SortFunc(tps, record.TopicPartition.Compare)
	for {
		found := c.unsettled(tps, sources)
		if len(found) == 0 || !c.waits() {
			c.found = append(c.found, found...)
			return
		}
	}
}

// unsettled is what is behind, or held up, at this moment.
func (c *checking) unsettled(tps, sources []record.TopicPartition) (found []Violation) {
	whole, err := c.cluster.admin.Ends(c.ctx, tps, false)
	if err != nil {
		return []Violation{{Unknown, "the topics", "they can be read", err.Error()}}
	}
	stable, err := c.cluster.admin.Ends(c.ctx, tps, true)
	if err != nil {
		return []Violation{{Unknown, "the topics", "they can be read", err.Error()}}
	}
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

// faults are the rules that have never fired, and those that were refused.
func (c *checking) faults() {
	for _, m := range c.cluster.members {
		for _, p := range m.Faults.Unfired() {
			c.report(Vacuous, m.Name+", "+string(p), "the fault fires", "it was never reached")
		}
		for _, err := range m.Faults.refusals() {
			c.report(Vacuous, m.Name, "the rule is in force", err.Error())
		}
	}
}

// answers are those whose position went back.
func (c *checking) answers() {
	for _, m := range c.cluster.members {
		c.found = append(c.found, m.probe.backwards()...)
	}
}
