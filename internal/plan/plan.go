package plan

import (
	"cmp"
	"slices"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Plan does not change once it is made.
type Plan struct {
	// App is the application's id, which internal topics are named after.
	App      string
	Topology *topology.Topology
	// Counts are the partition counts of the topics that are read or written.
	Counts   map[string]int32
	bySource map[string]*topology.SubTopology
	byID     map[int32]*topology.SubTopology
}

// New makes a plan. The topology is bound to the application.
func New(app string, t *topology.Topology, counts map[string]int32) *Plan {
	p := &Plan{App: app, Topology: t, Counts: counts, bySource: map[string]*topology.SubTopology{}, byID: map[int32]*topology.SubTopology{}}
	for _, s := range t.SubTopologies {
		p.byID[s.ID] = s
		for _, src := range s.Sources {
			p.bySource[src.Topic] = s
		}
	}
	return p
}

// SubTopology is the one with a number, nil if there is none; Reader the one that reads a topic.
func (p *Plan) SubTopology(id int32) *topology.SubTopology { return p.byID[id] }

// Reader is the sub-topology that reads a topic, nil if none does.
func (p *Plan) Reader(topic string) *topology.SubTopology { return p.bySource[topic] }

// TaskOf names the task that reads a source partition.
func (p *Plan) TaskOf(tp record.TopicPartition) (record.TaskID, bool) {
	s := p.bySource[tp.Topic]
	if s == nil {
		return record.TaskID{}, false
	}
	return record.TaskID{SubTopology: s.ID, Partition: tp.Partition}, true
}

// Sources are the partitions that a task reads.
func (p *Plan) Sources(id record.TaskID) (tps []record.TopicPartition) {
	s := p.byID[id.SubTopology]
	if s == nil {
		return nil
	}
	for _, src := range s.Sources {
		if id.Partition < p.Counts[src.Topic] {
			tps = append(tps, record.TopicPartition{Topic: src.Topic, Partition: id.Partition})
		}
	}
	return tps
}

// Partitions is how many tasks a sub-topology has: as many as its widest source topic has partitions.
func (p *Plan) Partitions(s *topology.SubTopology) (n int32) {
	for _, src := range s.Sources {
		n = max(n, p.Counts[src.Topic])
	}
	return n
}

// Tasks are all tasks of the topology, in order.
func (p *Plan) Tasks() (ids []record.TaskID) {
	for _, s := range p.Topology.SubTopologies {
		for i := range p.Partitions(s) {
			ids = append(ids, record.TaskID{SubTopology: s.ID, Partition: i})
		}
	}
	slices.SortFunc(ids, record.TaskID.Compare)
	return ids
}

// SourceTopics are all topics that the group subscribes to, in order.
func (p *Plan) SourceTopics() (names []string) {
	for name := range p.bySource {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Stores are the stores of a task's sub-topology, in the order that numbers them.
func (p *Plan) Stores(id record.TaskID) []topology.StoreSpec {
	if s := p.byID[id.SubTopology]; s != nil {
		return s.Stores
	}
	return nil
}

// UpstreamFirst orders sub-topologies so that one that writes a repartition topic comes before one that reads it.
// Sub-topologies that feed each other in a circle come in the order of their numbers.
func (p *Plan) UpstreamFirst() []*topology.SubTopology {
	depth := map[int32]int{}
	for range p.Topology.SubTopologies { // a path is at most as long as there are sub-topologies
		for _, s := range p.Topology.SubTopologies {
			for _, sink := range s.Sinks {
				if down := p.bySource[sink.Topic]; down != nil && down != s {
					depth[down.ID] = max(depth[down.ID], min(depth[s.ID]+1, len(p.Topology.SubTopologies)))
				}
			}
		}
	}
	return slices.SortedFunc(slices.Values(p.Topology.SubTopologies), func(a, b *topology.SubTopology) int {
		return cmp.Or(cmp.Compare(depth[a.ID], depth[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// SourceSpec is how a topic is read; zero if it is not.
func (p *Plan) SourceSpec(topic string) topology.SourceSpec {
	if s := p.bySource[topic]; s != nil {
		for _, src := range s.Sources {
			if src.Topic == topic {
				return src
			}
		}
	}
	return topology.SourceSpec{}
}

// Changelog is the changelog partition of a task's store.
func (p *Plan) Changelog(store string, id record.TaskID) record.TopicPartition {
	return record.TopicPartition{Topic: topology.ChangelogTopic(p.App, store), Partition: id.Partition}
}
