package millrace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// plan is a topology whose topics have partition counts: which tasks there are and what each reads and keeps. It does not
// change while the node runs.
type plan struct {
	topology *topology.Topology
	counts   map[string]int32
	bySource map[string]*topology.SubTopology
	byID     map[int32]*topology.SubTopology
}

func newPlan(t *topology.Topology, counts map[string]int32) *plan {
	p := &plan{topology: t, counts: counts, bySource: map[string]*topology.SubTopology{}, byID: map[int32]*topology.SubTopology{}}
	for _, s := range t.SubTopologies {
		p.byID[s.ID] = s
		for _, src := range s.Sources {
			p.bySource[src.Topic] = s
		}
	}
	return p
}

// taskOf names the task that reads a source partition.
func (p *plan) taskOf(tp record.TopicPartition) (record.TaskID, bool) {
	s := p.bySource[tp.Topic]
	if s == nil {
		return record.TaskID{}, false
	}
	return record.TaskID{SubTopology: s.ID, Partition: tp.Partition}, true
}

// sources are the partitions that a task reads.
func (p *plan) sources(id record.TaskID) (tps []record.TopicPartition) {
	s := p.byID[id.SubTopology]
	if s == nil {
		return nil
	}
	for _, src := range s.Sources {
		if id.Partition < p.counts[src.Topic] {
			tps = append(tps, record.TopicPartition{Topic: src.Topic, Partition: id.Partition})
		}
	}
	return tps
}

// partitions is how many tasks a sub-topology has: as many as its widest source topic has partitions.
func (p *plan) partitions(s *topology.SubTopology) (n int32) {
	for _, src := range s.Sources {
		n = max(n, p.counts[src.Topic])
	}
	return n
}

// tasks are all tasks of the topology, in order.
func (p *plan) tasks() (ids []record.TaskID) {
	for _, s := range p.topology.SubTopologies {
		for i := range p.partitions(s) {
			ids = append(ids, record.TaskID{SubTopology: s.ID, Partition: i})
		}
	}
	slices.SortFunc(ids, record.TaskID.Compare)
	return ids
}

// sourceTopics are all topics that the group subscribes to, in order.
func (p *plan) sourceTopics() (names []string) {
	for name := range p.bySource {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// stores are the stores of a task's sub-topology, in the order that numbers them.
func (p *plan) stores(id record.TaskID) []topology.StoreSpec {
	if s := p.byID[id.SubTopology]; s != nil {
		return s.Stores
	}
	return nil
}

// upstreamFirst orders sub-topologies so that one that writes a repartition topic comes before one that reads it.
// Sub-topologies that feed each other in a circle come in the order of their numbers.
func (p *plan) upstreamFirst() []*topology.SubTopology {
	depth := map[int32]int{}
	for range p.topology.SubTopologies { // a path is at most as long as there are sub-topologies
		for _, s := range p.topology.SubTopologies {
			for _, sink := range s.Sinks {
				if down := p.bySource[sink.Topic]; down != nil && down != s {
					depth[down.ID] = max(depth[down.ID], min(depth[s.ID]+1, len(p.topology.SubTopologies)))
				}
			}
		}
	}
	return slices.SortedFunc(slices.Values(p.topology.SubTopologies), func(a, b *topology.SubTopology) int {
		return cmp.Or(cmp.Compare(depth[a.ID], depth[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// MissingTopicError is a topic that the topology reads or writes and that does not exist. Millrace creates internal
// topics only: the partition count of the others is the application's decision.
type MissingTopicError struct {
	Topic string
	// Use is what the topology does with it: "reads", "writes" or "sends dead letters to".
	Use string
}

// Error names the topic and what to do.
func (e *MissingTopicError) Error() string {
	return fmt.Sprintf("millrace: topic %q, which the topology %s, does not exist: create it, then start again", e.Topic, e.Use)
}

// sourceSpec is how a topic is read.
func (p *plan) sourceSpec(topic string) topology.SourceSpec {
	if s := p.bySource[topic]; s != nil {
		for _, src := range s.Sources {
			if src.Topic == topic {
				return src
			}
		}
	}
	return topology.SourceSpec{}
}
