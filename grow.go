package millrace

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/internal/plan"
)

// PartitionCountChangedError says that a topic which feeds a store was given more partitions while the application has
// state: keys would go to partitions whose stores have no history. The node ends with it.
type PartitionCountChangedError struct {
	Topic    string
	Was, Now int32
	Store    string
}

// Error names the topic, the store and what to do.
func (e *PartitionCountChangedError) Error() string {
	return fmt.Sprintf("millrace: topic %q has %d partitions now and had %d when store %q was made, so its keys have moved: reset the application, or copy the topic into one with the new count under another application id",
		e.Topic, e.Now, e.Was, e.Store)
}

// grow takes up partitions that were added to source topics, of which an assignment is the first to tell. Without a store
// they are new tasks, which start by their reset policy (case H5); under a store they end the node.
func (n *Node) grow(owners []assign.Owner) error {
	p := n.plan.Load()
	grown := false
	for _, o := range owners {
		if s := p.SubTopology(o.Task.SubTopology); s != nil && o.Task.Partition >= p.Partitions(s) {
			grown = true
		}
	}
	if !grown {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, 10*time.Second)
	defer cancel()
	infos, err := n.admin.Topics(ctx, p.SourceTopics()...)
	if err != nil {
		return err
	}
	counts := maps.Clone(p.Counts)
	for topic, info := range infos {
		s := p.Reader(topic)
		if info.Partitions > counts[topic] && len(s.Stores) > 0 {
			return &PartitionCountChangedError{Topic: topic, Was: counts[topic], Now: info.Partitions, Store: s.Stores[0].Name}
		}
		counts[topic] = info.Partitions
	}
	n.plan.Store(plan.New(n.app, n.topology, counts))
	return nil
}
