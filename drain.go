package millrace

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Drain waits until everything that was in the source topics when it was called, and all that follows from it, is
// processed and committed, by this node or by others of the application. What is in the topics of the global stores is in this
// node's before. It takes the sub-topologies upstream first, so
// that what a repartition topic holds is final when it is looked at.
//
// Its error is the context's, or that the cluster refused to say where the ends are.
func (n *Node) Drain(ctx context.Context) error {
	if err := n.Ready(ctx); err != nil {
		return err
	}
	if err := n.globals.drain(ctx); err != nil {
		return err
	}
	p := n.plan.Load()
	for _, s := range p.UpstreamFirst() {
		if err := n.drain(ctx, p, s); err != nil {
			return err
		}
	}
	return nil
}

// drainEvery is how often Drain asks for the committed offsets: a few times in a commit interval of the default.
const drainEvery = 30 * time.Millisecond

func (n *Node) drain(ctx context.Context, p *plan.Plan, s *topology.SubTopology) error {
	var tps []record.TopicPartition
	for i := range p.Partitions(s) {
		tps = append(tps, p.Sources(record.TaskID{SubTopology: s.ID, Partition: i})...)
	}
	ends, err := n.admin.Ends(ctx, tps, false)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	for {
		committed, err := n.admin.CommittedOffsets(ctx, n.app, tps)
		if err != nil {
			return err
		}
		behind := false
		for _, tp := range tps {
			end := ends[tp]
			if end.HighWatermark == end.Start {
				continue
			}
			at := committed[tp].At
			if id, ok := p.TaskOf(tp); ok && n.owned.has(id) {
				if applied, ok := n.applied.get(tp); ok {
					at = min(at, applied)
				}
			}
			behind = behind || at < end.HighWatermark
		}
		if !behind {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
