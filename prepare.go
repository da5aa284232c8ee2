package millrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// prepare reaches the cluster, opens the state directory, and makes the internal topics. Nothing of it joins the group.
func (n *Node) prepare(ctx context.Context) error {
	options := store.DirectoryOptions{CacheBytes: n.opts.cacheBytes, Logger: n.opts.logger, Fault: n.opts.fault}
	if n.opts.directory != nil {
		n.opts.directory(&options)
	}
	dir, err := store.OpenDirectory(n.opts.stateDir, n.app, options)
	if err != nil {
		return err
	}
	n.dir = dir
	if err := n.reach(ctx); err != nil {
		return err
	}
	if n.admin, err = kafka.NewAdmin(n.kafkaConfig("admin")); err != nil {
		return err
	}
	cluster, err := n.admin.Cluster(ctx)
	if err != nil {
		return err
	}
	n.clusterID = cluster.ID
	counts, err := n.partitionCounts(ctx)
	if err != nil {
		return err
	}
	n.plan.Store(plan.New(n.app, n.topology, counts))
	if err := n.internalTopics(ctx); err != nil {
		return err
	}
	if n.changelog, err = kafka.NewChangelog(n.kafkaConfig("restore")); err != nil {
		return err
	}
	gauge := &actors.Gauge{}
	n.status.board.set(n.status.board.node()+"/restore", change{kind: KindRestore, gauge: gauge})
	props := store.NewRestoreActorProps(changelogReader{n.changelog}, restoresAtOnce, actors.Gauged(gauge, func(any) any { return nil })...)
	n.restorer, err = n.system.Root.SpawnNamed(props, n.app+"-restore-"+n.system.ProcessRegistry.NextId())
	return err
}

// reach waits for a broker. It says so if that takes long: a process that is silent for half a minute looks dead.
func (n *Node) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.startTimeout)
	defer cancel()
	told := time.AfterFunc(reachTold, func() {
		n.opts.logger.Warn("no broker answers yet; trying", "brokers", n.opts.brokers, "for", n.opts.startTimeout)
	})
	defer told.Stop()
	return kafka.Reach(ctx, n.kafkaConfig("admin"))
}

// reachTold is after how long without an answer the log says so.
const reachTold = 2 * time.Second

// restoresAtOnce is how many tasks restore at a time. More share the same disk and connections; fewer leave one of them idle.
const restoresAtOnce = 4

func (n *Node) kafkaConfig(role string) kafka.Config {
	return kafka.Config{Brokers: n.opts.brokers, ClientID: cmp.Or(n.opts.clientID, "millrace-"+n.app) + "-" + role, RequestTimeout: n.opts.request, Logger: n.opts.logger,
		TLS: n.opts.tls, User: n.opts.user, Password: n.opts.password, Mechanism: n.opts.mechanism, Dial: n.opts.dial}
}

// changelogReader is the kafka room's reader as the store room asks for it.
type changelogReader struct{ *kafka.Changelog }

// Ends implements store.ChangelogReader.
func (r changelogReader) Ends(ctx context.Context, tps []record.TopicPartition) (map[record.TopicPartition]store.LogRange, error) {
	ranges, err := r.Changelog.Ends(ctx, tps)
	out := make(map[record.TopicPartition]store.LogRange, len(ranges))
	for tp, x := range ranges {
		out[tp] = store.LogRange(x)
	}
	return out, err
}

// partitionCounts looks up the external topics, and derives the counts of repartition topics from them.
func (n *Node) partitionCounts(ctx context.Context) (map[string]int32, error) {
	external := n.externalTopics()
	infos, err := n.admin.Topics(ctx, slices.Collect(maps.Keys(external))...)
	if err != nil {
		return nil, err
	}
	counts := map[string]int32{}
	var missing []error
	for _, topic := range slices.Sorted(maps.Keys(external)) {
		if info, ok := infos[topic]; ok {
			counts[topic] = info.Partitions
		} else {
			missing = append(missing, &MissingTopicError{Topic: topic, Use: external[topic]})
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	repartition, err := n.topology.RepartitionCounts(counts)
	if err != nil {
		return nil, err
	}
	maps.Copy(counts, repartition)
	return counts, n.topology.CheckPartitions(counts)
}

// internalTopics makes the topics of the application itself, or finds that they are there if somebody else makes them. It
// learns the ids of changelogs.
func (n *Node) internalTopics(ctx context.Context) error {
	changelogs := n.changelogs()
	specs := append(n.repartitionTopics(), changelogs...)
	missing, err := n.admin.CheckTopics(ctx, specs)
	switch {
	case err != nil:
		return err
	case len(missing) > 0 && n.opts.keepTopics:
		return missingInternal(n.opts.brokers, missing)
	}
	if err := n.admin.CreateTopics(ctx, missing); err != nil {
		return err
	}
	return n.learnTopics(ctx, changelogs)
}

// externalTopics are the topics that others make, and what the topology does with each.
func (n *Node) externalTopics() map[string]string {
	use := map[string]string{}
	if topic := n.topology.Handlers().DeadLetterTopic; topic != "" {
		use[topic] = "sends dead letters to"
	}
	for _, s := range n.topology.SubTopologies {
		for _, sink := range s.Sinks {
			if !sink.Internal {
				use[sink.Topic] = "writes"
			}
		}
	}
	for _, s := range n.topology.SubTopologies {
		for _, src := range s.Sources {
			if !src.Internal {
				use[src.Topic] = "reads"
			}
		}
	}
	for _, g := range n.topology.Globals {
		use[g.Topic] = "reads"
	}
	return use
}

// repartitionTopics are purged up to the committed offsets and by nothing else: a record that was not processed yet must
// not go.
func (n *Node) repartitionTopics() (specs []kafka.TopicSpec) {
	external := n.externalTopics()
	for topic, partitions := range n.plan.Load().Counts {
		if external[topic] != "" {
			continue
		}
		specs = append(specs, kafka.TopicSpec{Name: topic, Partitions: partitions, Replication: n.opts.replication, Configs: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime",
		}})
	}
	slices.SortFunc(specs, func(a, b kafka.TopicSpec) int { return cmp.Compare(a.Name, b.Name) })
	return specs
}

// changelogs are a compacted topic for each store, with a partition for each task.
func (n *Node) changelogs() (specs []kafka.TopicSpec) {
	p := n.plan.Load()
	for _, s := range p.Topology.SubTopologies {
		for _, st := range s.Stores {
			n.router.SetPartitions(st.Name, p.Partitions(s))
			if !st.Changelog {
				continue
			}
			configs := map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
			maps.Copy(configs, st.ChangelogConfig)
			specs = append(specs, kafka.TopicSpec{
				Name: topology.ChangelogTopic(n.app, st.Name), Partitions: p.Partitions(s), Replication: n.opts.replication, Configs: configs,
			})
		}
	}
	return specs
}

// learnTopics notes the ids of topics, by which one of the same name that is made later is told from them.
func (n *Node) learnTopics(ctx context.Context, specs []kafka.TopicSpec) error {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	infos, err := n.admin.Topics(ctx, names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, ok := infos[name]
		if !ok {
			return fmt.Errorf("millrace: topic %q was created and is not there: start again", name)
		}
		n.topicIDs[name] = info.ID
	}
	return nil
}
