package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/record"
)

// step is something that is waited for.
type step struct {
	what  string
	limit time.Duration
	ask   func(context.Context) error
}

// cycle does a fault and waits until nothing is left of it. In the middle of a storm it waits for the replicas only, since
// a partition whose replicas are on one broker would end with that broker.
func (r *run) cycle(ctx context.Context, f fault, settle bool) error {
	if err := r.pause(ctx, f.after); err != nil {
		return err
	}
	if err := r.do(ctx, f); err != nil {
		return err
	}
	steps := []step{{"the replicas to be in sync", inSyncLimit, func(context.Context) error { return r.client.InSync(members) }}}
	if settle {
		steps = append(steps, step{"three running nodes that share the tasks", runningLimit, r.running},
			step{"the committed offsets to pass the fault", advanceLimit, r.passed()})
	}
	for _, s := range steps {
		began := time.Now()
		if err := r.await(ctx, s.what, s.limit, s.ask); err != nil {
			return err
		}
		if waited := time.Since(began); waited > slow {
			r.say("    waited %.1fs for %s", waited.Seconds(), s.what)
		}
	}
	return nil
}

// slow is how long a wait may take before it is mentioned.
const slow = 2 * time.Second

// do takes the target away and brings it back.
func (r *run) do(ctx context.Context, f fault) error {
	n := r.nodes[f.target-1]
	switch f.kind {
	case killNode:
		r.totals.Kills++
		n.kill()
		if f.wipe {
			if err := os.RemoveAll(n.stateDir()); err != nil {
				return err
			}
		}
		return r.without(ctx, n, f.down, n.start)
	case stopNode:
		if err := n.signal(freeze); err != nil {
			return err
		}
		return r.stopped(ctx, n, f.down)
	case stopInCommit:
		if err := r.freezeInCommit(ctx, n); err != nil {
			return err
		}
		return r.stopped(ctx, n, f.down)
	case restartNode:
		r.totals.Restarts++
		if err := n.end(ctx, f.leave); err != nil {
			return err
		}
		return r.without(ctx, n, f.down, n.start)
	case killBroker:
		r.totals.Kills++
		r.cluster.Kill(f.target)
		return r.later(ctx, f.down, func() error { return r.restart(ctx, f.target) })
	case restartBroker:
		r.totals.Restarts++
		if err := r.cluster.Stop(f.target); err != nil {
			return err
		}
		return r.later(ctx, f.down, func() error { return r.restart(ctx, f.target) })
	case loseQuorum:
		return r.loseQuorum(ctx, f.target, f.down)
	}
	return fmt.Errorf("there is no fault %d", f.kind)
}

// stopped lets a node that is stopped go on after d.
func (r *run) stopped(ctx context.Context, n *node, d time.Duration) error {
	r.totals.Stops++
	if err := r.without(ctx, n, d, func() error { return n.signal(thaw) }); err != nil {
		return err
	}
	return r.pause(ctx, noticed)
}

// loseQuorum takes all brokers but one away at once, for longer than a transaction may be open, while the node of the same
// number is in the middle of a commit. It goes on when they are gone, and cannot be told how that commit ends.
func (r *run) loseQuorum(ctx context.Context, stays int, d time.Duration) error {
	n := r.nodes[stays-1]
	if err := r.freezeInCommit(ctx, n); err != nil {
		return err
	}
	var gone []int
	for id := 1; id <= members; id++ {
		if id != stays {
			gone = append(gone, id)
			r.cluster.Kill(id)
			r.totals.Kills++
		}
	}
	if err := n.signal(thaw); err != nil {
		return err
	}
	return r.later(ctx, d, func() error {
		for _, id := range gone {
			if err := r.restart(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// restart starts a broker again. One that has not opened its port within the cluster's patience, on a busy machine, is
// given the time that its replicas have to be in sync.
func (r *run) restart(ctx context.Context, id int) error {
	if err := r.cluster.Restart(ctx, id); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.say("    %v", err)
	}
	return nil
}

// noticed is how long a node that goes on may believe that nothing has happened: until its next heartbeat is answered.
const noticed = session / 2

func (r *run) later(ctx context.Context, d time.Duration, then func() error) error {
	if err := r.pause(ctx, d); err != nil {
		return err
	}
	return then()
}

// without lets the other nodes go on alone for d, and says when they had taken over.
func (r *run) without(ctx context.Context, away *node, d time.Duration, then func() error) error {
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool { return n == away })
	began, over := time.Now(), false
	for time.Since(began) < d {
		if err := r.pause(ctx, min(lookEvery, d-time.Since(began))); err != nil {
			return err
		}
		if !over && shared(ctx, others) == nil {
			over = true
			r.say("    the others had taken over after %.1fs", time.Since(began).Seconds())
		}
	}
	return then()
}

// running is nil if every node is RUNNING and each task is on exactly one of them.
func (r *run) running(ctx context.Context) error { return shared(ctx, r.nodes) }

func shared(ctx context.Context, nodes []*node) error {
	var owned []string
	for _, n := range nodes {
		s, err := n.status(ctx)
		if err != nil {
			return err
		}
		if s.State != "RUNNING" {
			return fmt.Errorf("%s is %+v", n.name(), s)
		}
		owned = append(owned, s.Owned...)
	}
	slices.Sort(owned)
	if different := slices.Compact(slices.Clone(owned)); len(owned) != tasks || len(different) != tasks {
		return fmt.Errorf("of %d tasks these are owned: %s", tasks, strings.Join(owned, " "))
	}
	return nil
}

// passed is nil when the group is past everything that was in its source topics at the first look.
func (r *run) passed() func(context.Context) error {
	var ends map[record.TopicPartition]wire.End
	return func(ctx context.Context) (err error) {
		tps := sources()
		if ends == nil {
			if ends, err = r.client.Ends(ctx, tps); err != nil {
				return err
			}
		}
		committed, err := r.client.Committed(ctx, application, tps)
		if err != nil {
			return err
		}
		for _, tp := range tps {
			// A position behind a commit marker may be committed only when something follows it.
			if committed[tp] < ends[tp].LastStable-1 {
				return fmt.Errorf("%s is at %d, and %d was there", tp, committed[tp], ends[tp].LastStable)
			}
		}
		return nil
	}
}

const repartitionTopic = application + "-words-repartition"

// sources are the partitions that the group reads, upstream first.
func sources() (tps []record.TopicPartition) {
	for _, topic := range []string{linesTopic, amountsTopic, repartitionTopic} {
		for p := range int32(partitions) {
			tps = append(tps, record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return tps
}

func join(brokers []string) string { return strings.Join(brokers, ",") }
