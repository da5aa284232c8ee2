package query

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-io/millrace/query/querypb"
)

// Dial makes a client of a node's endpoint, host:port. It must not wait for the node.
type Dial func(endpoint string) (Client, error)

// Nodes is one Client over several nodes of an application, by their endpoints. dial, which may be nil, makes clients of
// owners that are not among them.
//
// A question goes to the node that is known to have its partition, or to any. A failure that says Rediscover is followed to
// the owner that it names, or to the other nodes; one that says Elsewhere to the other nodes; and so is one of a node that
// does not know its own part yet (StreamThreadNotStarted, MetadataUnavailable, and StreamThreadRebalancing without
// progress), because another may. Each node is asked once. If none answers, the failure that advises most comes back:
// Here before Rediscover before Elsewhere.
//
// A question that is bound to a lease, a View's or that of a scan under way, goes to the node that gave it and is never
// followed: there is no such lease elsewhere, and Open takes another.
func Nodes(clients map[string]Client, dial Dial) Client {
	return &nodes{clients: maps.Clone(clients), dial: dial, order: slices.Sorted(maps.Keys(clients)), owners: map[storePartition]string{}}
}

type storePartition struct {
	store     string
	partition int32
}

// nodes keeps who has answered what. The mutex protects all fields: many goroutines ask at the same time, and none may wait
// for another's answer, so there is no owner goroutine in between.
type nodes struct {
	mu      sync.Mutex
	clients map[string]Client
	order   []string
	owners  map[storePartition]string
	dial    Dial
}

// maxOwners bounds what is remembered; it is forgotten as a whole then, which costs a detour each.
const maxOwners = 100_000

// maxNodes bounds how many owners are dialled, whatever endpoints failures name.
const maxNodes = 1_000

// Ask implements Client.
func (n *nodes) Ask(ctx context.Context, q Question) (*querypb.Reply, error) {
	at := storePartition{q.GetAbout().GetStore(), q.GetAbout().GetPartition()}
	if q.GetAbout().GetEpoch() != 0 {
		_, c := n.next(at, "", nil)
		if c == nil {
			return nil, noNodes(at)
		}
		return c.Ask(ctx, q)
	}
	var reply *querypb.Reply
	err := n.follow(ctx, at, func(c Client) (err error) {
		reply, err = c.Ask(ctx, q)
		if err == nil {
			err = FromReply(reply)
		}
		return err
	})
	return reply, err
}

// Partitions implements Client.
func (n *nodes) Partitions(ctx context.Context, store string) (count int32, err error) {
	err = n.follow(ctx, storePartition{store, NoPartition}, func(c Client) (err error) {
		count, err = c.Partitions(ctx, store)
		return err
	})
	return count, err
}

// follow asks node after node until one answers or there is no reason to go on.
func (n *nodes) follow(ctx context.Context, at storePartition, ask func(Client) error) error {
	best := error(noNodes(at))
	tried := map[string]bool{}
	hint := ""
	for {
		endpoint, c := n.next(at, hint, tried)
		if c == nil {
			return best
		}
		tried[endpoint] = true
		err := ask(c)
		if err == nil {
			n.remember(at, endpoint)
			return nil
		}
		f := (*Failure)(nil)
		if !errors.As(err, &f) || f.settles() {
			return err
		}
		if ctx.Err() != nil {
			return GaveUp(ctx, at.store, at.partition)
		}
		hint = f.Owner
		if len(tried) == 1 || rank(err) < rank(best) {
			best = err
		}
	}
}

// settles: no other node would say anything better.
func (f *Failure) settles() bool {
	switch f.Kind {
	case StreamThreadNotStarted, MetadataUnavailable:
		return false
	case StreamThreadRebalancing:
		return f.Progress != nil
	}
	return f.retry() == Here || f.retry() == Never
}

// rank orders failures by how much their advice is worth.
func rank(err error) RetryClass {
	if f := (*Failure)(nil); errors.As(err, &f) {
		return f.retry()
	}
	return Never
}

// next is the node to ask: the one that the last failure named, the one that answered last time, or any that was not asked.
func (n *nodes) next(at storePartition, hint string, tried map[string]bool) (string, Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, endpoint := range append([]string{hint, n.owners[at]}, n.order...) {
		if endpoint == "" || tried[endpoint] {
			continue
		}
		if c := n.client(endpoint); c != nil {
			return endpoint, c
		}
	}
	return "", nil
}

// client is nil for a node that cannot be reached.
func (n *nodes) client(endpoint string) Client {
	if c := n.clients[endpoint]; c != nil || n.dial == nil || len(n.clients) >= maxNodes {
		return c
	}
	c, err := n.dial(endpoint)
	if err != nil {
		return nil
	}
	n.clients[endpoint] = c
	n.order = append(n.order, endpoint)
	return c
}

func (n *nodes) remember(at storePartition, endpoint string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.owners) >= maxOwners {
		clear(n.owners)
	}
	n.owners[at] = endpoint
}

func noNodes(at storePartition) *Failure {
	f := New(MetadataUnavailable, at.store, at.partition)
	f.Detail = "there is no node to ask"
	return f
}
