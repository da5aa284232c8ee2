package millrace

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/page"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
)

var _ page.Node = operator{}

// Picture implements page.Node.
func (o operator) Picture(causes bool) page.Picture {
	root := o.Node.Tree()
	if !causes {
		silence(&root)
	}
	state, _, cause := o.status.snapshot()
	p := page.Picture{App: o.app, Time: time.Now(), State: state, Tree: placeOf(&root), Graph: o.topology.Graph(o.app), Description: o.topology.Describe(),
		Measured: o.meters != nil}
	if cause != nil {
		p.Cause = told(cause.Error(), causes)
	}
	for _, e := range o.status.board.hub.recent() {
		p.Transitions = append(p.Transitions, page.Transition{Time: e.Time, Path: e.Path, Old: e.Old, New: e.New, Epoch: e.Epoch, Flags: e.Flags, Cause: told(e.Cause, causes)})
	}
	for _, s := range storeInfos(o.topology) {
		p.Stores = append(p.Stores, page.Store{Name: s.Name, Kind: s.Kind})
	}
	p.Partitions = o.partitions(&root)
	return p
}

// told is a cause as its reader may know it.
func told(cause string, causes bool) string {
	if cause != "" && !causes {
		return httpapi.Silenced
	}
	return cause
}

func placeOf(a *Actor) page.Place {
	p := page.Place{Name: lastOf(a.Path), Kind: a.Kind, State: a.State, Since: a.Since, Epoch: a.Epoch, Restarts: a.Restarts, Cause: a.Cause, Retry: a.Retry,
		Mailbox: a.Mailbox, Flags: (&place{Actor: *a}).flags()}
	for i := range a.Children {
		p.Children = append(p.Children, placeOf(&a.Children[i]))
	}
	return p
}

// partitions are the tasks of the application, here and elsewhere, and the global stores. There are none before topics were
// looked at.
func (o operator) partitions(root *Actor) (all []page.Partition) {
	plan := o.plan.Load()
	if plan == nil {
		return nil
	}
	restores, owners := o.restores(), map[string][]query.Location{}
	figures, rates := o.paced()
	for _, id := range plan.Tasks() {
		p := page.Partition{Task: id.String(), SubTopology: id.SubTopology}
		for _, st := range plan.Stores(id) {
			p.Stores = append(p.Stores, st.Name)
			if r := restores[storePartition{st.Name, id.String()}]; r != nil {
				p.Restore = r
			}
		}
		if !placed(&p, root, "task-"+id.String()) {
			p.Owner = o.ownerOf(owners, p.Stores, id)
		} else if t, ok := figures[id]; ok {
			p.Lag = &t.Lag
			if rate, ok := rates[id]; ok {
				p.Rate = &rate
			}
		}
		all = append(all, p)
	}
	for i := range o.topology.Globals {
		name := o.topology.Globals[i].Name
		p := page.Partition{Task: globalTask, SubTopology: -1, Stores: []string{name}, Restore: restores[storePartition{name, globalTask}]}
		placed(&p, root, "store-"+name)
		all = append(all, p)
	}
	return all
}

// restores are those that are under way, by where.
func (o operator) restores() map[storePartition]*httpapi.RestoreProgress {
	all, progress := map[storePartition]*httpapi.RestoreProgress{}, o.Progress()
	for i := range progress.Restores {
		r := &progress.Restores[i]
		all[o.partitionOf(router.Restore{Store: r.Store, Partition: r.Partition})] = r
	}
	return all
}

// placed fills in what the tree says of a task or a global store; false says that it is not here.
func placed(p *page.Partition, root *Actor, name string) bool {
	for i := range root.Children {
		th := &root.Children[i]
		for j := range th.Children {
			a := &th.Children[j]
			if lastOf(a.Path) != name {
				continue
			}
			p.Owner, p.Here, p.State, p.Flags = lastOf(th.Path), true, a.State, (&place{Actor: *a}).flags()
			if q := a.Quarantine; q != nil {
				p.Quarantine = &httpapi.Quarantined{Task: p.Task, Thread: p.Owner, Topic: q.Source.Topic, Partition: q.Source.Partition, Offset: q.Offset,
					Attempts: q.Attempts, Retry: q.Retry, Cause: q.Cause}
			}
			return true
		}
	}
	return false
}

// ownerOf is who has a task that is not here, by its first store: of tasks without one nothing is known. It asks the node's own
// catalogue once for each store.
func (o operator) ownerOf(asked map[string][]query.Location, stores []string, id record.TaskID) string {
	if len(stores) == 0 {
		return ""
	}
	all, ok := asked[stores[0]]
	if !ok {
		all, _ = query.Locations(context.Background(), o.Node, stores[0]) // what fails is not known
		asked[stores[0]] = all
	}
	for _, l := range all {
		if l.Partition == id.Partition {
			return l.Owner
		}
	}
	return ""
}
