package router

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// catalogue answers a question about the node from what is published. at is the gate that was asked, whose store and
// partition are meant where the question names none; nil if it was the node.
func (r *Router) catalogue(q query.Question, at *address) *querypb.Reply {
	store := q.GetAbout().GetStore()
	if store == "" && at != nil {
		store = at.store
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, declared := r.stores[store]; store != "" && !declared {
		return r.refuse(query.UnknownStateStore, store, query.NoPartition, r.known())
	}
	if detail := query.Mistake(q); detail != "" {
		return r.refuse(query.InvalidQuery, store, query.NoPartition, detail)
	}
	switch q := q.(type) {
	case *querypb.ListStores:
		return &querypb.Reply{Store: store, Answer: &querypb.Reply_Stores{Stores: r.listStores(store)}}
	case *querypb.ListRestores:
		return &querypb.Reply{Store: store, Answer: &querypb.Reply_Restores{Restores: r.listRestores(store)}}
	case *querypb.Locate:
		return r.locate(q, store, at)
	}
	return r.refuse(query.InvalidQuery, store, query.NoPartition, "it is not a question about the node")
}

func (r *Router) refuse(kind query.Kind, store string, partition int32, detail string) *querypb.Reply {
	f := query.New(kind, store, partition)
	f.NodeState, f.Detail = r.node.String(), detail
	return query.ToReply(f)
}

// knownMax bounds how many stores an answer about an unknown one names.
const knownMax = 20

// known names the stores that exist. The lock is held.
func (r *Router) known() string {
	if len(r.stores) == 0 {
		return "it has none"
	}
	names := slices.Sorted(maps.Keys(r.stores))
	more := ""
	if len(names) > knownMax {
		names, more = names[:knownMax], " and others"
	}
	return `it has "` + strings.Join(names, `", "`) + `"` + more
}

// mistake adds what is wrong with a question to a store: another type than the store's, or a question that no store answers.
// The lock is held.
func (r *Router) mistake(s *query.Situation, store string, q query.Question) (detail string) {
	about, info := q.GetAbout(), r.stores[store]
	for _, c := range [...]struct{ what, asked, has string }{
		{"kind", about.GetKind(), info.Kind}, {"key codec", about.GetKeyCodec(), info.KeyCodec}, {"value codec", about.GetValueCodec(), info.ValueCodec},
	} {
		if c.asked != "" && c.asked != c.has {
			s.Mistake = query.StateStoreTypeMismatch
			return "its " + c.what + " is " + c.has + ", and the question's is " + c.asked
		}
	}
	kind, detail := query.KindMistake(q, info.Kind)
	if kind == query.StateStoreTypeMismatch {
		s.Mistake = kind
		return detail
	}
	if m := query.Mistake(q); m != "" {
		kind, detail = query.InvalidQuery, m
	}
	s.Mistake = kind
	return detail
}

func (r *Router) listStores(only string) *querypb.StoreList {
	list := &querypb.StoreList{NodeState: r.node.String()}
	for _, name := range slices.Sorted(maps.Keys(r.stores)) {
		if s := r.stores[name]; only == "" || only == name {
			list.Stores = append(list.Stores, &querypb.Store{Name: s.Name, Kind: s.Kind, KeyCodec: s.KeyCodec, ValueCodec: s.ValueCodec, Partitions: r.partitions[name], Global: s.Global})
		}
	}
	return list
}

func (r *Router) listRestores(only string) *querypb.RestoreList {
	list := &querypb.RestoreList{}
	for _, g := range r.directory.all() {
		l := g.now()
		if l.state != query.LeaseRestoring || l.progress == nil || (only != "" && only != g.at.store) {
			continue
		}
		left := query.Estimate(*l.progress, time.Now())
		list.Restores = append(list.Restores, &querypb.Restore{Store: g.at.store, Partition: g.at.partition,
			Progress: query.ToProgress(*l.progress), LeftMs: left.Milliseconds()})
	}
	slices.SortFunc(list.Restores, func(a, b *querypb.Restore) int {
		if c := strings.Compare(a.Store, b.Store); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return list
}

// locate says who has one partition of a store, or all. For one, not to know is a failure.
func (r *Router) locate(q *querypb.Locate, store string, at *address) *querypb.Reply {
	n := r.partitions[store]
	partition, one := wanted(q, at, n)
	s := query.Situation{Node: r.node, Declared: true, Partitions: n, Group: true, Known: n > 0}
	var locations []*querypb.Location
	switch {
	case store == "":
		return r.refuse(query.InvalidQuery, store, query.NoPartition, "a Locate needs a store")
	case one:
		s.Partition = partition
		l := r.location(store, partition)
		s.Known = n > 0 && (l.Here || l.Owner != "")
		locations = append(locations, l)
	default:
		for p := range n {
			locations = append(locations, r.location(store, p))
		}
		partition = query.NoPartition
	}
	detail := r.mistake(&s, store, q)
	if kind, serve := query.Decide(s); !serve {
		if n == 0 && (q.GetAbout() == nil || q.About.Partition == nil) {
			partition = query.NoPartition // the key's is not known
		}
		return r.refuse(kind, store, partition, detail)
	}
	return &querypb.Reply{Store: store, Partition: max(partition, 0), Answer: &querypb.Reply_Locations{
		Locations: &querypb.Locations{Partitions: n, Locations: locations, NodeState: r.node.String()}}}
}

// wanted is the partition that a Locate is about; one is false if it is about all.
func wanted(q *querypb.Locate, at *address, n int32) (partition int32, one bool) {
	switch {
	case q.GetAbout() != nil && q.About.Partition != nil:
		return *q.About.Partition, true
	case q.Key != nil && n > 0:
		return record.Partition(q.Key, n), true
	case q.Key != nil:
		return 0, true
	case at != nil:
		return at.partition, true
	}
	return query.NoPartition, false
}

// location is what is published about a store partition. The lock is held.
func (r *Router) location(store string, partition int32) *querypb.Location {
	out := &querypb.Location{Partition: partition, Owner: r.owners[store][partition], State: query.LeaseNone.String()}
	if r.stores[store].Global {
		out.Here, out.Owner = true, r.opts.Endpoint
	}
	g := r.directory.existing(address{store, partition})
	if g == nil {
		return out
	}
	l := g.now()
	out.State = l.state.String()
	if l.epoch != r.directory.base {
		out.Epoch = l.epoch
	}
	switch l.state {
	case query.LeaseOpening, query.LeaseRestoring, query.LeaseServing, query.LeaseFailed:
		out.Here, out.Owner = true, r.opts.Endpoint
	case query.LeaseRevoked, query.LeaseNone:
		if r.opts.Endpoint != "" && out.Owner == r.opts.Endpoint && r.node == lifecycle.NodeRunning {
			out.Owner = "" // the view of the group is older than the revocation
		}
	}
	if t, ok := r.threads[l.thread]; ok {
		out.ThreadState = t.State.String()
	}
	if l.progress != nil {
		out.Progress = query.ToProgress(*l.progress)
	}
	return out
}

// now is a copy of what is published. The router's lock may be held.
func (g *gate) now() lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lease
}
