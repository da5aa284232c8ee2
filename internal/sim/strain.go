package main

import (
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

func planSlow(rng *rand.Rand, _ *scenario, f *fault) {
	f.For = time.Second + time.Duration(rng.IntN(59_000))*time.Millisecond
}

// strikeSlow waits for a job of a task's state; the flush that is due is one.
func strikeSlow(_ *world, n *node, f *fault) {
	n.disk.slow = f
	if n.present {
		n.proc.flushAll()
	}
}

// delay is for how long the next job of a task's state is held up.
func (d *disk) delay() time.Duration {
	f := d.slow
	if f == nil || d.node.world.calm {
		return 0
	}
	d.slow = nil
	d.node.world.fired(f)
	return f.For
}

// strikeDamage ends a process and damages the state of the first task, from one by chance on, that has anything on disk.
func strikeDamage(w *world, n *node, f *fault) {
	if !n.present {
		return
	}
	n.crash(false)
	first := w.rng.IntN(w.plan.Partitions)
	for i := range w.plan.Partitions {
		id := record.TaskID{SubTopology: countTask, Partition: int32((first + i) % w.plan.Partitions)}
		if n.disk.damage(n.disk.fs.PathJoin(stateDir, appID, id.String())) {
			w.fired(f)
			return
		}
	}
}

// strikeCompacted does what a log cleaner does, up to the last stable offset.
func strikeCompacted(w *world, _ *node, f *fault) {
	hit := false
	for _, l := range w.order {
		if l.tp.Topic == changelogTopic {
			hit = l.compact() || hit
		}
	}
	if hit {
		w.fired(f)
	}
}

// compact leaves the last record of each key. Offsets stay as they are. It says whether anything went.
func (l *partition) compact() (hit bool) {
	kept := map[string]bool{}
	for i := l.stable() - 1; i >= 0; i-- {
		e := &l.log[i]
		if e.marker || e.gone {
			continue
		}
		if e.counts() && !kept[string(e.raw.Key)] {
			kept[string(e.raw.Key)] = true
			continue
		}
		e.gone, hit = true, true
	}
	return hit
}

const (
	// waitingMax is how many questions may wait at a gate here; floodSize is more than that.
	waitingMax = 200
	floodSize  = 500
)

// crowd asks one store the same many times at once. Its answers come in any order, so it does no more with them than count.
type crowd struct {
	client
	left map[uint32]bool
	all  map[query.Kind]int
}

var _ actor.Process = (*crowd)(nil)

// strikeFlood is for the owner: the gate of another node refuses at once whatever comes, and nothing is flooded. Nor is
// anything if no question was one too many.
func strikeFlood(w *world, _ *node, f *fault) {
	const key = "hot0"
	partition := record.Partition([]byte(key), int32(w.plan.Partitions))
	n := w.owner(partition)
	if n == nil {
		return
	}
	c := &crowd{client: client{world: w, id: clientCount, to: n.proc, key: key, partition: partition}, left: map[uint32]bool{}, all: map[query.Kind]int{}}
	c.pid, _ = system.ProcessRegistry.Add(c, "crowd/"+system.ProcessRegistry.NextId())
	w.crowds = append(w.crowds, c)
	n.proc.deliver(func() {
		q := &querypb.Get{Key: []byte(c.key)}
		c.since = w.now
		for i := range uint32(floodSize) {
			c.left[i+1] = true
			sender := &actor.PID{Address: c.pid.Address, Id: c.pid.Id, RequestId: i + 1}
			system.Root.RequestWithCustomSender(n.proc.router.PID(countsStore, c.partition), q, sender)
		}
		if c.all[query.Overloaded] > 0 {
			w.fired(f)
		}
	})
}

// SendUserMessage implements actor.Process: one answer to each question, a right value or a failure that may be.
func (c *crowd) SendUserMessage(to *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	r, ok := m.(*querypb.Reply)
	if !ok || !c.left[to.GetRequestId()] {
		c.world.fail("a crowd gets %T for question %d, which is answered or was never asked", m, to.GetRequestId())
	}
	delete(c.left, to.GetRequestId())
	if err := query.FromReply(r); err != nil {
		c.all[err.(*query.Failure).Kind]++
		c.failed(err.(*query.Failure))
		return
	}
	c.all[0]++
	c.holds(&querypb.Get{Key: []byte(c.key)}, r, c.position(r))
}

// settle: each question has its answer, if its process lives.
func (c *crowd) settle() {
	if len(c.left) > 0 && !c.to.dead && c.world.now-c.since > time.Second {
		c.world.fail("%s has not answered %d of %d questions for %v", c.to.name, len(c.left), floodSize, c.world.now-c.since)
	}
	c.world.say("a crowd got %v", c.all)
	system.ProcessRegistry.Remove(c.pid)
}
