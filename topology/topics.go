package topology

import "slices"

// ExternalTopics are the topics that the topology reads or writes and that others make, each once: sources, sinks, the topics of
// global stores and that of dead letters.
func (t *Topology) ExternalTopics() (topics []string) {
	add := func(topic string, internal bool) {
		if topic != "" && !internal && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	for _, s := range t.SubTopologies {
		for _, src := range s.Sources {
			add(src.Topic, src.Internal)
		}
		for _, sink := range s.Sinks {
			add(sink.Topic, sink.Internal)
		}
	}
	for i := range t.Globals {
		add(t.Globals[i].Topic, false)
	}
	add(t.handlers.DeadLetterTopic, false)
	return topics
}

// InternalTopics are the topics that nodes make for an application, to whose id the topology is bound: repartition topics and
// changelogs.
func (t *Topology) InternalTopics(app string) (topics []string) {
	for _, s := range t.SubTopologies {
		for _, src := range s.Sources {
			if src.Internal {
				topics = append(topics, src.Topic)
			}
		}
		for i := range s.Stores {
			if s.Stores[i].Changelog {
				topics = append(topics, ChangelogTopic(app, s.Stores[i].Name))
			}
		}
	}
	return topics
}
