package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// client asks nodes one question at a time, and holds each answer against the truth.
type client struct {
	world *world
	id    int
	pid   *actor.PID
	// asked is the question without an answer, of the process to.
	asked     query.Question
	partition int32
	key       string
	to        *process
	number    uint32
	since     time.Duration
	// forgotten is the last question whose process has died.
	forgotten uint32
	// positions are what answers of owners have reported, by partition; leases the epochs of Views, by process.
	positions map[int32]int64
	leases    map[*process]map[int32]uint64
}

const clientCount = 4

var _ actor.Process = (*client)(nil)

func (w *world) startClients() {
	for i := range clientCount {
		c := &client{world: w, id: i, positions: map[int32]int64{}, leases: map[*process]map[int32]uint64{}}
		c.pid, _ = system.ProcessRegistry.Add(c, "client/"+system.ProcessRegistry.NextId())
		w.clients = append(w.clients, c)
		w.after(w.between(time.Second, 2*time.Second), c.turn)
	}
}

// turn asks, unless an answer is still awaited.
func (c *client) turn() {
	w := c.world
	w.after(w.between(80*time.Millisecond, 600*time.Millisecond), c.turn)
	present := w.present()
	if c.asked != nil || len(present) == 0 {
		return
	}
	c.key = fmt.Sprintf("key%d", w.rng.IntN(18))
	if w.chance(3) {
		c.key = fmt.Sprintf("hot%d", w.rng.IntN(2))
	}
	c.partition = record.Partition([]byte(c.key), int32(w.plan.Partitions))
	n := pick(w, present)
	if !w.chance(4) {
		n = cmp.Or(w.owner(c.partition), n)
	}
	c.ask(n.proc)
}

// owner is the node that has a partition of the store, as the group knows it; nil if none that is present has it.
func (w *world) owner(partition int32) *node {
	instance, present := w.group.owner(record.TopicPartition{Topic: wordsTopic, Partition: partition}), w.present()
	if i := slices.IndexFunc(present, func(n *node) bool { return n.proc.instance() == instance }); i >= 0 {
		return present[i]
	}
	return nil
}

func (c *client) ask(p *process) {
	w := c.world
	about := &querypb.About{Store: countsStore, Partition: &c.partition, Kind: counts.StoreKind(), KeyCodec: counts.KeyCodec().Name(), ValueCodec: counts.ValueCodec().Name(), Derived: true}
	if epoch := c.leases[p][c.partition]; epoch != 0 && w.chance(2) {
		about.Epoch, about.Held = epoch, true
	}
	switch w.rng.IntN(8) {
	case 0:
		c.asked = &querypb.Open{About: about}
	case 1, 2:
		c.asked = &querypb.Range{About: about, Packed: true}
	default:
		c.asked = &querypb.Get{About: about, Key: []byte(c.key)}
	}
	c.to, c.since = p, w.now
	c.number++
	w.tally.Queries++
	number := c.number
	w.after(w.between(networkLow, networkHigh), func() {
		p.deliver(func() {
			sender := &actor.PID{Address: c.pid.Address, Id: c.pid.Id, RequestId: number}
			system.Root.RequestWithCustomSender(p.router.PID(countsStore, c.partition), c.asked, sender)
		})
	})
}

// SendUserMessage implements actor.Process: it is the answer. A lease that ends fails its questions in the order of a map, and
// that must not decide about anything here, so each client takes answers up at a time of its own.
func (c *client) SendUserMessage(to *actor.PID, message any) {
	c.world.after(time.Duration(c.id+1)*time.Microsecond, func() { c.take(to.GetRequestId(), message) })
}

func (c *client) take(number uint32, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	if number != c.number || c.asked == nil {
		if c.forgotten == number {
			return
		}
		c.world.fail("a client gets an answer to question %d, and %d is the last: %v", number, c.number, m)
	}
	q := c.asked
	c.asked = nil
	r, ok := m.(*querypb.Reply)
	if !ok {
		c.world.fail("%T is no answer", m)
	}
	c.check(q, r)
}

// SendSystemMessage implements actor.Process.
func (c *client) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (c *client) Stop(*actor.PID) {}

// gone is called when a process has ended: its client hears no more of it.
func (c *client) gone(p *process) {
	delete(c.leases, p)
	if c.to == p && c.asked != nil {
		c.asked, c.forgotten = nil, c.number
		c.world.tally.Unanswered++
	}
}

// settle: nobody waits for ever.
func (c *client) settle() {
	if c.asked != nil && c.world.now-c.since > time.Second {
		c.world.fail("%s has not answered a question for %v", c.to.name, c.world.now-c.since)
	}
	system.ProcessRegistry.Remove(c.pid)
}

// impossible are failures that blame the question.
var impossible = map[query.Kind]bool{query.UnknownStateStore: true, query.StateStoreTypeMismatch: true, query.InvalidQuery: true, query.IteratorClosed: true,
	query.PartitionNotInStore: true, query.Overloaded: true, query.DeadlineExceeded: true}

func (c *client) check(q query.Question, r *querypb.Reply) {
	w := c.world
	if err := query.FromReply(r); err != nil {
		f := err.(*query.Failure)
		w.say("client %d: %s answers %s", c.id, c.to.name, f.Kind)
		w.tally.Failures[f.Kind.String()]++
		c.failed(f)
		return
	}
	w.tally.Answers++
	position := c.position(r)
	w.say("client %d: %s answers as of %d", c.id, c.to.name, position)
	if asked := q.GetAbout().GetEpoch(); asked != 0 && asked != r.Epoch {
		w.fail("%s answers under another lease than the one that was asked", c.to.name)
	}
	c.advance(position)
	c.holds(q, r, position)
}

// failed: the situation allows it.
func (c *client) failed(f *query.Failure) {
	w := c.world
	flooded := f.Kind == query.Overloaded && w.tally.Planned[kindFlood] > 0
	if impossible[f.Kind] && !flooded || f.Kind == query.StoreFailure && w.tally.disk() == 0 {
		w.fail("%s answers %v, which cannot be", c.to.name, f)
	}
}

// holds: the answer is right for its position.
func (c *client) holds(q query.Question, r *querypb.Reply, position int64) {
	w := c.world
	switch q := q.(type) {
	case *querypb.Open:
		if c.leases[c.to] == nil {
			c.leases[c.to] = map[int32]uint64{}
		}
		c.leases[c.to][c.partition] = r.Epoch
	case *querypb.Get:
		got := map[string]int64{}
		if v := r.GetValue(); v.GetPresent() {
			got[string(q.Key)] = int64(binary.BigEndian.Uint64(v.Value))
		}
		want := w.truth.at(c.partition, string(q.Key), position)
		if n := got[string(q.Key)]; n < want || n > want && w.plan.ExactlyOnce {
			w.fail("%s says that there are %d of %s at %d, and there are %d", c.to.name, n, q.Key, position, want)
		}
	case *querypb.Range:
		c.checkPage(r.GetPage(), position)
	}
}

func (c *client) checkPage(page *querypb.Page, position int64) {
	got := map[string]int64{}
	entries := query.EntriesOf(page)
	for entries.Next() {
		got[string(entries.Key)] = int64(binary.BigEndian.Uint64(entries.Value))
	}
	c.world.truth.holds(c.to.name+": a page", got, c.partition, position)
}

// position is what the answer says of the repartition topic; 0 if nothing.
func (c *client) position(r *querypb.Reply) int64 {
	for _, at := range r.GetPosition() {
		if at.GetTopic() == wordsTopic && at.GetPartition() == c.partition {
			return at.GetNext()
		}
	}
	return 0
}

// advance: what the owner says never goes back. A node that the group has thrown out and that does not know it yet may be
// behind; it is honest about where it is.
func (c *client) advance(position int64) {
	w := c.world
	if w.group.owner(record.TopicPartition{Topic: wordsTopic, Partition: c.partition}) != c.to.instance() || !c.to.isCurrent() || !w.plan.ExactlyOnce {
		w.tally.Stale++
		return
	}
	if position < c.positions[c.partition] {
		w.fail("%s answers as of %d, and client %s has seen %d", c.to.name, position, strconv.Itoa(c.id), c.positions[c.partition])
	}
	c.positions[c.partition] = position
}
