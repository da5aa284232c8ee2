package router

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// directory is the gates of one application on one actor system. It is registered there as a process, so that a later
// router finds it: the system is the only thing that two nodes of one process share.
//
// The mutex protects the gates, which any goroutine may ask for.
type directory struct {
	system  *actor.ActorSystem
	app     string
	current atomic.Pointer[Router]
	dropped atomic.Int64
	// published counts what could end a lease or an answer; see query.Watch.
	published atomic.Uint64
	// base is the epoch before the first lease of each gate. It is drawn by chance, so that a View of another process, or of
	// an earlier life of this one, matches no lease here. It has room for a million leases and fits in a JSON number.
	base uint64
	pid  *actor.PID

	mu    sync.RWMutex
	gates map[address]*gate
}

var _ actor.Process = (*directory)(nil)

// SendUserMessage implements actor.Process: it answers the questions that are about the node.
func (d *directory) SendUserMessage(_ *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if sender == nil {
		d.dropped.Add(1)
		return
	}
	q, ok := m.(query.Question)
	if !ok || !query.OfNode(q) {
		d.send(sender, query.ToReply(query.Invalid("", query.NoPartition, "the message is not a question about the node: send it to a store partition")))
		return
	}
	d.send(sender, d.current.Load().catalogue(q, nil))
}

// send answers, unless nobody is there any more: an asker that has stopped waiting is no dead letter.
func (d *directory) send(to *actor.PID, r *querypb.Reply) {
	process, ok := d.system.ProcessRegistry.Get(to)
	if !ok {
		d.dropped.Add(1)
		return
	}
	process.SendUserMessage(to, r)
}

// SendSystemMessage implements actor.Process.
func (d *directory) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (d *directory) Stop(*actor.PID) {}

// directoryOf finds the application's directory or makes it.
func directoryOf(system *actor.ActorSystem, app string) *directory {
	d := &directory{system: system, app: app, gates: map[address]*gate{}, base: (rand.Uint64N(1<<32) + 1) << 20}
	id := app + "/query"
	d.pid = system.NewLocalPID(id)
	pid, fresh := system.ProcessRegistry.Add(d, id)
	if fresh {
		return d
	}
	there, _ := system.ProcessRegistry.GetLocal(id)
	if old, ok := there.(*directory); ok {
		return old
	}
	replace(system, pid, d)
	return d
}

// replace puts ours in the place of a process of somebody else's that has our name.
func replace(system *actor.ActorSystem, pid *actor.PID, ours actor.Process) {
	system.ProcessRegistry.Remove(pid)
	system.ProcessRegistry.Add(ours, pid.Id)
}

// takeOver makes r the router that the gates answer from. Leases of the one before end; their epochs go on counting, so
// that no View of it matches a lease of r.
func (d *directory) takeOver(r *Router) {
	before := d.current.Swap(r)
	d.published.Add(1)
	if before == nil {
		return
	}
	for _, g := range d.all() {
		g.publish(r, func(l *lease) { *l = lease{state: query.LeaseNone, epoch: l.epoch} })
	}
}

func (d *directory) all() (gates []*gate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.gates {
		gates = append(gates, g)
	}
	return gates
}

func (d *directory) newGate(at address) *gate {
	return &gate{directory: d, at: at, outstanding: map[uint32]pending{}, lease: lease{epoch: d.base}}
}

// existing is nil if nobody has asked for that gate and nothing was published for it.
func (d *directory) existing(at address) *gate {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.gates[at]
}

func (d *directory) gate(at address) *gate {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.gates[at]; g != nil {
		return g
	}
	g := d.newGate(at)
	// The name goes to a process that is complete, or a question could reach it before it is.
	id := d.app + "/query/" + at.store + "/" + strconv.Itoa(int(at.partition))
	g.pid = d.system.NewLocalPID(id)
	if pid, fresh := d.system.ProcessRegistry.Add(g, id); !fresh {
		replace(d.system, pid, g)
	}
	d.gates[at] = g
	return g
}
