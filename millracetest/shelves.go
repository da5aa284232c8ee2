package millracetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// entries are what a store or a changelog holds, as text, by key.
type entries map[string]string

// stores compares every store that has a changelog: the changelog with the reference's, what the one member that has the
// partition answers with what the reference answers, and both with each other. Global stores are compared on each member.
func (c *checking) stores(ref *reference) {
	for _, s := range ref.every.topology.SubTopologies {
		for i := range s.Stores {
			for p := range ref.every.plan.Partitions(s) {
				if s.Stores[i].Changelog {
					c.store(ref, &s.Stores[i], record.TaskID{SubTopology: s.ID, Partition: p})
				}
			}
		}
	}
	for i := range ref.every.topology.Globals {
		c.global(ref, &ref.every.topology.Globals[i].StoreSpec)
	}
}

func (c *checking) store(ref *reference, st *topology.StoreSpec, id record.TaskID) {
	tp := ref.every.plan.Changelog(st.Name, id)
	where := fmt.Sprintf("%s, partition %d", st.Name, id.Partition)
	logged, want := c.fold(ref.logs[tp]), c.fold(ref.every.sent[tp][id])
	c.same(Changelog, tp.String(), logged, want)
	held, ok := c.served(where, st, id.Partition)
	if !ok {
		return
	}
	if known, err := c.scan(ref.every, st, id.Partition); err != nil {
		c.report(Unknown, where, "the reference answers", err.Error())
	} else {
		c.same(Store, where, held, known)
	}
	if st.Kind != keyValue {
		return // what has expired is in the changelog yet
	}
	for _, key := range slices.Sorted(maps.Keys(union(held, logged))) {
		if held[key] != logged[key] {
			c.report(StoreLog, where+", key "+key, orNothing(logged[key])+", as the changelog says", orNothing(held[key]))
		}
	}
}

const keyValue = "key-value"

// served is what the one member answers that has a partition. A partition may be on its way from one member to another, so
// what is wrong must stay so.
func (c *checking) served(where string, st *topology.StoreSpec, p int32) (held entries, ok bool) {
	for {
		held, ok, found := c.ask(where, st, p)
		if len(found) == 0 || !c.waits() {
			c.found = append(c.found, found...)
			return held, ok
		}
	}
}

// ask asks every member once.
func (c *checking) ask(where string, st *topology.StoreSpec, p int32) (held entries, ok bool, found []Violation) {
	var by string
	var refused error
	for _, m := range c.cluster.live() {
		got, err := c.scan(m.Node, st, p)
		switch f := (*query.Failure)(nil); {
		case err == nil && ok:
			found = append(found, Violation{ServedTwice, where, by + " alone", m.Name + " too"})
		case err == nil:
			held, ok, by = got, true, m.Name
		case !errors.As(err, &f):
			found = append(found, Violation{Unknown, where, "a failure that is typed", err.Error()})
		default:
			refused = errors.Join(refused, fmt.Errorf("%s: %w", m.Name, err))
		}
	}
	if !ok {
		found = append(found, Violation{Unserved, where, "a member that answers", fmt.Sprint(refused)})
	}
	return held, ok, found
}

func (c *checking) global(ref *reference, st *topology.StoreSpec) {
	want, err := c.scan(ref.every, st, 0)
	if err != nil {
		c.report(Unknown, st.Name, "the reference answers", err.Error())
		return
	}
	for _, m := range c.cluster.live() {
		got, err := c.scan(m.Node, st, 0)
		if err != nil {
			c.report(Unserved, st.Name+" on "+m.Name, "it answers", err.Error())
			continue
		}
		c.same(Store, st.Name+" on "+m.Name, got, want)
	}
}

// same compares with the reference. At least once there may be more behind a key, but no key is missing.
func (c *checking) same(law Law, where string, got, want entries) {
	for _, key := range slices.Sorted(maps.Keys(union(got, want))) {
		if g, w := got[key], want[key]; g != w && (!c.atLeastOnce || g == "") {
			c.report(law, where+", key "+key, orNothing(w), orNothing(g))
		}
	}
}

func union(a, b entries) entries {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// fold is what a changelog comes to.
func (c *checking) fold(records []record.Raw) entries {
	all := entries{}
	for i := range records {
		r := &records[i]
		if r.Value == nil {
			delete(all, shown(r.Key))
			continue
		}
		all[shown(r.Key)] = c.text(&record.Raw{Value: r.Value, Timestamp: r.Timestamp})
	}
	return all
}

// scan reads a store partition whole.
func (c *checking) scan(of interface {
	Ask(context.Context, query.Question) (*querypb.Reply, error)
}, st *topology.StoreSpec, p int32) (entries, error) {
	all := entries{}
	q := &querypb.Range{About: &querypb.About{Store: st.Name, Partition: &p}, LimitEntries: 1000, Packed: true}
	if st.Kind != keyValue {
		q.Windows = &querypb.Windows{}
	}
	for {
		reply, err := of.Ask(c.ctx, q)
		if err != nil {
			return nil, err
		}
		page := reply.GetPage()
		for e := query.EntriesOf(page); e.Next(); q.Resume = e.Key {
			all[shown(e.Key)] = c.text(&record.Raw{Value: e.Value, Timestamp: e.Timestamp})
		}
		if page.GetResume() != nil {
			q.Resume = page.GetResume()
		}
		if !page.GetMore() {
			return all, nil
		}
	}
}
