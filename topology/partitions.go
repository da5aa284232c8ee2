package topology

import (
	"errors"
	"fmt"
)

// RepartitionCounts gives every repartition topic its partition count, as Kafka Streams does: the one it was declared
// with, or else the largest of the sources upstream of it. One that meets other topics in a sub-topology with stores
// takes their count instead, because a key must be in one task whatever topic it came in; CheckPartitions verifies that.
// sources are the counts of the other topics; all names are Kafka's. The error joins a *BuildError for each source
// topic without a count above 0 (UnknownPartitions).
func (t *Topology) RepartitionCounts(sources map[string]int32) (map[string]int32, error) {
	known := map[*topicNode]int32{}
	var errs []error
	for _, topic := range t.topics {
		switch {
		case !topic.internal:
			known[topic] = sources[topic.name]
			if topic.source != nil && sources[topic.name] <= 0 {
				errs = append(errs, &BuildError{Node: topic.source.name, Reason: UnknownPartitions,
					Detail: fmt.Sprintf("the partition count of topic %q is not known; create the topic", topic.name)})
			}
		case topic.partitions > 0:
			known[topic] = topic.partitions
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	all := t.derive(known)
	for t.adjust(known, all) {
		all = t.derive(known)
	}
	counts := map[string]int32{}
	for _, topic := range t.topics {
		if topic.internal {
			counts[RepartitionTopic(t.app, topic.name)] = all[topic]
		}
	}
	return counts, nil
}

// derive gives every topic its count from those that are known. It ends because Build refuses repartition topics that
// feed themselves.
func (t *Topology) derive(known map[*topicNode]int32) map[*topicNode]int32 {
	all := map[*topicNode]int32{}
	var count func(*topicNode) int32
	count = func(topic *topicNode) int32 {
		if n, ok := known[topic]; ok {
			all[topic] = n
		} else if _, ok := all[topic]; !ok {
			for _, up := range t.upstream(topic) {
				all[topic] = max(all[topic], count(up))
			}
		}
		return all[topic]
	}
	for _, topic := range t.topics {
		count(topic)
	}
	return all
}

// adjust makes one more topic known whose stores want another count than its own upstream gives, and says whether it
// did. So there are at most as many rounds as topics. A topic that cannot change decides; without one the largest does.
func (t *Topology) adjust(known, all map[*topicNode]int32) bool {
	for _, s := range t.SubTopologies {
		if len(s.Stores) == 0 {
			continue
		}
		var fixed, largest int32
		for _, n := range s.nodes {
			if n.kind != sourceKind {
				continue
			}
			largest = max(largest, all[n.topic])
			if !n.topic.internal || n.topic.partitions > 0 {
				fixed = max(fixed, all[n.topic])
			}
		}
		want := largest
		if fixed > 0 {
			want = fixed
		}
		for _, n := range s.nodes {
			if n.kind != sourceKind || all[n.topic] == want {
				continue
			}
			if _, ok := known[n.topic]; !ok {
				known[n.topic] = want
				return true
			}
		}
	}
	return false
}

// upstream is the topics that the sinks of a topic get records from, without crossing another topic.
func (t *Topology) upstream(topic *topicNode) (ups []*topicNode) {
	seen := map[*node]bool{}
	var walk func(*node)
	walk = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.kind == sourceKind {
			ups = append(ups, n.topic)
		}
		for _, p := range n.parents {
			walk(p)
		}
	}
	for _, s := range t.SubTopologies {
		for _, n := range s.nodes {
			if n.kind == sinkKind && n.topic == topic {
				walk(n)
			}
		}
	}
	return ups
}
