package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SourceSpec is one source of a sub-topology. Topic is the name in Kafka once the topology is bound to an application.
type SourceSpec struct {
	Name, Topic string
	// Internal says that it is a repartition topic, which the application makes and purges.
	Internal bool
	Reset    Reset
}

// SinkSpec is one sink of a sub-topology.
type SinkSpec struct {
	Name, Topic string
	Internal    bool
}

// StoreSpec is one store of a sub-topology.
type StoreSpec struct {
	Name, Kind           string
	KeyCodec, ValueCodec string
	// KeyOrdered says that the bytes of keys sort as the keys do.
	KeyOrdered      bool
	Changelog       bool
	ChangelogConfig map[string]string
	// InMemory says that nothing of it is on disk: every start restores the whole changelog.
	InMemory bool
	// WindowSize is a window store's. Retention is how long window and session stores keep a window; 0 for others.
	WindowSize, Retention time.Duration
	// ParseKey encodes a key that is given as text; FormatKey and FormatValue are for reading. They serve URLs and the
	// command line, where no typed handle is at hand.
	ParseKey               func(text string) ([]byte, error)
	FormatKey, FormatValue func([]byte) (string, error)
}

// SubTopology is a part of a topology that is connected by streams and shared stores. Each of its partitions is a task.
type SubTopology struct {
	ID      int32
	Sources []SourceSpec
	Sinks   []SinkSpec
	Stores  []StoreSpec
	// Globals are the names of the global stores that its processors read. They are the topology's.
	Globals []string
	app     string
	nodes   []*node
	// handlers are the topology's; nobody changes them.
	handlers *Handlers
}

// kafkaTopic is a topic's name in Kafka.
func (s *SubTopology) kafkaTopic(t *topicNode) string {
	if t.internal {
		return RepartitionTopic(s.app, t.name)
	}
	return t.name
}

// Topology is what an application computes, as a value: it starts nothing and may be used by several nodes.
type Topology struct {
	// SubTopologies are in the order of their first sources.
	SubTopologies []*SubTopology
	// Globals are the global stores, in the order of their declaration. They belong to no sub-topology.
	Globals  []GlobalSpec
	topics   []*topicNode
	app      string
	handlers Handlers
}

// Handlers are what the topology does about records that fail.
func (t *Topology) Handlers() Handlers { return t.handlers }

// ChangelogTopic is the name of a store's changelog in Kafka, as Kafka Streams has it.
func ChangelogTopic(app, store string) string { return app + "-" + store + "-changelog" }

// RepartitionTopic is the name of a repartition topic in Kafka, as Kafka Streams has it.
func RepartitionTopic(app, name string) string { return app + "-" + name + "-repartition" }

// Bind returns the topology with the names that it has in Kafka for one application. Build's names of repartition topics
// lack the application's.
func (t *Topology) Bind(app string) *Topology {
	bound := &Topology{Globals: t.Globals, topics: t.topics, app: app, handlers: t.handlers}
	for _, s := range t.SubTopologies {
		b := &SubTopology{ID: s.ID, Stores: s.Stores, Globals: s.Globals, app: app, nodes: s.nodes, handlers: s.handlers}
		b.describeEnds()
		bound.SubTopologies = append(bound.SubTopologies, b)
	}
	return bound
}

// describeEnds fills in the sources and sinks from the nodes.
func (s *SubTopology) describeEnds() {
	s.Sources, s.Sinks = nil, nil
	for _, n := range s.nodes {
		switch n.kind {
		case sourceKind:
			s.Sources = append(s.Sources, SourceSpec{Name: n.name, Topic: s.kafkaTopic(n.topic), Internal: n.topic.internal, Reset: n.topic.reset})
		case sinkKind:
			s.Sinks = append(s.Sinks, SinkSpec{Name: n.name, Topic: s.kafkaTopic(n.topic), Internal: n.topic.internal})
		}
	}
}

// Describe prints the topology, one sub-topology after the other, in the manner of Kafka Streams.
func (t *Topology) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n")
	if t.handlers.DeadLetterTopic != "" {
		fmt.Fprintf(&b, "   Dead-letter topic: %s\n", t.handlers.DeadLetterTopic)
	}
	for _, g := range t.Globals {
		fmt.Fprintf(&b, "   Global store: %s (topic: %s%s)\n", g.Name, g.Topic, map[bool]string{true: ", in memory"}[g.InMemory])
	}
	for _, s := range t.SubTopologies {
		fmt.Fprintf(&b, "   Sub-topology: %d\n", s.ID)
		for _, n := range s.nodes {
			switch n.kind {
			case sourceKind:
				fmt.Fprintf(&b, "    Source: %s (topics: [%s])\n      --> %s\n", n.name, s.kafkaTopic(n.topic), names(n.children))
			case sinkKind:
				fmt.Fprintf(&b, "    Sink: %s (topic: %s)\n      <-- %s\n", n.name, s.kafkaTopic(n.topic), names(n.parents))
			default:
				fmt.Fprintf(&b, "    Processor: %s (stores: [%s])\n", n.name, s.describeStores(n.stores))
				if n.windows != "" {
					fmt.Fprintf(&b, "      windows: %s\n", n.windows)
				}
				fmt.Fprintf(&b, "      --> %s\n      <-- %s\n", names(n.children), names(n.parents))
			}
		}
	}
	return b.String()
}

// describeStores lists stores; those that are not key-value stores on disk with what they are.
func (s *SubTopology) describeStores(names []string) string {
	var all []string
	for _, name := range names {
		if slices.Contains(s.Globals, name) {
			all = append(all, name+" (global)")
			continue
		}
		for _, st := range s.Stores {
			if what := st.describe(); st.Name == name && what != "" {
				name += " (" + what + ")"
			}
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

func (s *StoreSpec) describe() string {
	var parts []string
	switch {
	case s.WindowSize > 0:
		parts = append(parts, fmt.Sprintf("%s %s", s.Kind, s.WindowSize))
	case s.Kind != keyValueKind:
		parts = append(parts, s.Kind)
	}
	if s.Retention > 0 {
		parts = append(parts, fmt.Sprintf("retention %s", s.Retention))
	}
	if s.InMemory {
		parts = append(parts, "in memory")
	}
	return strings.Join(parts, ", ")
}

func names(nodes []*node) string {
	if len(nodes) == 0 {
		return "none"
	}
	s := make([]string, len(nodes))
	for i, n := range nodes {
		s[i] = n.name
	}
	slices.Sort(s)
	return strings.Join(s, ", ")
}

func (s *SubTopology) widest(counts map[string]int32) (n int32, known bool) {
	known = true
	for _, src := range s.Sources {
		known = known && counts[src.Topic] > 0
		n = max(n, counts[src.Topic])
	}
	return n, known
}

// CheckPartitions verifies that the sources that share a store, directly or through the streams that they join, have the
// same partition count: the same key is then in the same task. Its error joins a *BuildError for each that differs.
func (t *Topology) CheckPartitions(counts map[string]int32) error {
	var errs []error
	for _, s := range t.SubTopologies {
		if len(s.Stores) == 0 {
			continue
		}
		want, _ := s.widest(counts)
		for _, src := range s.Sources {
			if counts[src.Topic] != want {
				errs = append(errs, &BuildError{Node: src.Name, Reason: NotCoPartitioned,
					Detail: fmt.Sprintf("topic %q has %d partitions and another source of its stores has %d; repartition one of them", src.Topic, counts[src.Topic], want)})
			}
		}
	}
	return errors.Join(errs...)
}
