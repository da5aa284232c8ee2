package plan

import (
	"iter"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// TaskConfig is a task but for its state, its producer, and what the caller decides.
func (p *Plan) TaskConfig(id record.TaskID) task.Config {
	sub := p.byID[id.SubTopology]
	cfg := task.Config{ID: id, Sources: p.Sources(id), Chain: func(h topology.Host) (task.Chain, error) { return sub.Instantiate(h) }}
	for _, st := range p.Stores(id) {
		c := task.StoreConfig{Name: st.Name}
		if st.Changelog {
			c.Changelog = p.Changelog(st.Name, id)
		}
		cfg.Stores = append(cfg.Stores, c)
	}
	return cfg
}

// TaskSpec is what a task's directory must hold, in a cluster. topicID gives the ids of changelogs.
func (p *Plan) TaskSpec(id record.TaskID, cluster string, topicID func(changelog string) string) store.TaskSpec {
	spec := store.TaskSpec{ID: id, ClusterID: cluster, Partition: id.Partition}
	for _, st := range p.Stores(id) {
		s := store.StoreSpec{
			Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, ValueCodec: st.ValueCodec, Retention: st.Retention, InMemory: st.InMemory,
		}
		if st.Changelog {
			s.Changelog = topology.ChangelogTopic(p.App, st.Name)
			s.TopicID = topicID(s.Changelog)
		}
		spec.Stores = append(spec.Stores, s)
	}
	return spec
}

// Unit is a task's unit with the changelog offsets that the commit gave it.
func (p *Plan) Unit(u *task.Unit, ends map[record.TopicPartition]int64) *store.Unit {
	out := &store.Unit{Writes: u.Writes, Position: u.Position, WallClock: u.WallClock}
	for i, st := range p.Stores(u.Task) {
		if next, ok := ends[p.Changelog(st.Name, u.Task)]; ok && st.Changelog {
			out.Changelog = append(out.Changelog, store.StoreOffset{Store: i, Next: next})
		}
	}
	return out
}

// State gives a task its view of what store keeps.
type State struct{ *store.TaskState }

// Scan implements task.State.
func (s State) Scan(st int, from, to []byte, reverse bool) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		for e, err := range s.TaskState.Scan(st, from, to, reverse) {
			if !yield(task.Entry(e), err) {
				return
			}
		}
	}
}
