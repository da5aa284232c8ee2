package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// bench is a world without nodes, in which a test asks the models itself.
type bench struct {
	*world
	*testing.T
}

func newBench(t *testing.T) *bench {
	w := newWorld(&scenario{Seed: 1, Partitions: 2, Feed: time.Hour, ExactlyOnce: true}, nil)
	w.queue.events = nil // neither feed nor clients
	return &bench{w, t}
}

// wait lets time pass.
func (b *bench) wait(d time.Duration) { b.until(b.now + d) }

func (b *bench) is(what string, got, want int16) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %d, a real broker says %d", what, got, want)
	}
}

var (
	// outLog is none of the topics whose transactions the truth looks at.
	outLog = record.TopicPartition{Topic: inputTopic}
	inLog  = record.TopicPartition{Topic: wordsTopic}
)

func batchOf(n int) (all []record.Raw) {
	for i := range n {
		all = append(all, record.Raw{Key: []byte("k"), Value: fmt.Append(nil, i)})
	}
	return all
}

// begun is an id with a transaction that has one record.
func (b *bench) begun(id string) (o *office, t *identity, pid int64, epoch int16) {
	o = b.officeOf(id)
	pid, epoch, code := o.initialize(id, -1, -1)
	t = o.ids[id]
	b.is("init", code, 0)
	b.is("add", t.add(pid, epoch, []record.TopicPartition{outLog}), 0)
	b.is("produce", b.logs[outLog].append(pid, epoch, 0, batchOf(1), t, id).code, 0)
	return o, t, pid, epoch
}

// Transactions answer as the broker did that was asked: each line is one of what was seen.
func TestTransactionCoordinatorAnswersAsABroker(t *testing.T) {
	b := newBench(t)
	o, id, pid, epoch := b.begun("a")
	b.is("produce to a partition that was not added", b.logs[inLog].append(pid, epoch, 0, batchOf(1), id, "a").code, 48)
	b.is("offsets that were not announced", b.group.hold(id, pid, epoch, broker.Membership{Generation: -1}, broker.Offsets{}), 48)
	b.is("add again", id.add(pid, epoch, []record.TopicPartition{outLog}), 0)
	b.is("end", id.endTxn(pid, epoch, committed), 0)
	b.is("the same end, at once", id.endTxn(pid, epoch, committed), 51)
	b.is("the other end, at once", id.endTxn(pid, epoch, aborted), 51)
	b.is("the next transaction, at once", id.add(pid, epoch, []record.TopicPartition{outLog}), 51)
	_, _, code := o.initialize("a", pid, epoch)
	b.is("init, at once", code, 51)
	b.is("a batch behind the end, before the marker", b.logs[outLog].append(pid, epoch, 1, batchOf(1), id, "a").code, 0)
	b.wait(time.Second)
	if n := len(b.logs[outLog].visible()); n != 2 {
		t.Errorf("%d records count: a batch that came before the marker belongs to the transaction that has ended", n)
	}
	b.is("the same end, later", id.endTxn(pid, epoch, committed), 0)
	b.is("the other end, later", id.endTxn(pid, epoch, aborted), 48)
	b.is("a batch without a transaction", b.logs[outLog].append(pid, epoch, 2, batchOf(1), id, "a").code, 48)
	again, next, code := o.initialize("a", pid, epoch)
	b.is("init again", code, 0)
	if again != pid || next != epoch+1 {
		t.Errorf("init again gives %d, %d", again, next)
	}
	_, same, code := o.initialize("a", pid, epoch)
	b.is("the same init, whose answer was lost", code, 0)
	if same != next {
		t.Errorf("the same init gives epoch %d, not %d", same, next)
	}
	b.is("end of a fresh epoch", id.endTxn(pid, next, committed), 48)
	b.is("end with the old epoch", id.endTxn(pid, epoch, committed), 90)
	b.is("a wrong producer id", id.endTxn(pid+1, next, committed), 49)
	b.is("a batch with the old epoch", b.logs[outLog].append(pid, epoch, 2, batchOf(1), id, "a").code, 47)
}

// Init aborts an open transaction, whoever asks, and only the owner comes back from it.
func TestInitProducerIDAnswersAsABroker(t *testing.T) {
	b := newBench(t)
	o, id, pid, epoch := b.begun("own")
	_, _, code := o.initialize("own", pid, epoch)
	b.is("init with the own transaction open", code, 51)
	b.wait(time.Second)
	if len(b.logs[outLog].visible()) != 0 {
		t.Error("it was not aborted")
	}
	_, next, code := o.initialize("own", pid, epoch)
	if b.is("the same, a little later", code, 0); next != epoch+1 {
		t.Errorf("epoch %d after %d", next, epoch)
	}
	b.is("a batch with the old epoch", b.logs[outLog].append(pid, epoch, 1, batchOf(1), id, "own").code, 47)
	b.is("a batch with the new one, and the old sequence", b.joined(id, pid, next, 1), 45)
	b.is("a batch with the new one, from 0", b.logs[outLog].append(pid, next, 0, batchOf(1), id, "own").code, 0)

	// Somebody takes it over while it is open: the epoch goes up twice, and the first owner is fenced.
	_, _, code = o.initialize("own", -1, -1)
	b.is("a take-over with a transaction open", code, 51)
	b.wait(time.Second)
	_, taken, code := o.initialize("own", -1, -1)
	if b.is("a take-over", code, 0); taken != next+2 {
		t.Errorf("epoch %d after %d", taken, next)
	}
	_, _, code = o.initialize("own", pid, next)
	b.is("init of the fenced one, the owner idle", code, 90)
	b.is("the owner begins", id.add(pid, taken, []record.TopicPartition{outLog}), 0)
	_, _, code = o.initialize("own", pid, next)
	b.is("init of the fenced one, the owner's transaction open", code, 51)
	b.wait(time.Second)
	_, _, code = o.initialize("own", pid, next)
	b.is("the same again", code, 90)
	b.is("the owner's end", id.endTxn(pid, taken, committed), 90)
	_, _, code = o.initialize("own", pid, taken)
	b.is("the owner's init", code, 0)
}

// joined adds the partition and produces.
func (b *bench) joined(id *identity, pid int64, epoch int16, sequence int32) int16 {
	b.is("add", id.add(pid, epoch, []record.TopicPartition{outLog}), 0)
	return b.logs[outLog].append(pid, epoch, sequence, batchOf(1), id, id.id).code
}

// A time-out aborts, and the owner comes back with its old epoch.
func TestTimeOutAnswersAsABroker(t *testing.T) {
	b := newBench(t)
	o, id, pid, epoch := b.begun("late")
	b.wait(transactionTimeout + 11*time.Second)
	b.is("add", id.add(pid, epoch, []record.TopicPartition{outLog}), 90)
	b.is("end", id.endTxn(pid, epoch, committed), 90)
	b.is("produce", b.logs[outLog].append(pid, epoch, 1, batchOf(1), id, "late").code, 47)
	b.is("offsets", b.group.hold(id, pid, epoch, broker.Membership{Generation: -1}, nil), 47)
	_, next, code := o.initialize("late", pid, epoch)
	if b.is("init", code, 0); next != epoch+1 {
		t.Errorf("epoch %d after %d", next, epoch)
	}
}

// Sequences are those of a producer id and an epoch; the last five batches are known again.
func TestSequencesAreCheckedAsABrokerDoes(t *testing.T) {
	b := newBench(t)
	l := b.logs[outLog]
	first := l.append(7, 0, 0, batchOf(2), nil, "p")
	b.is("the first batch", first.code, 0)
	b.is("a gap", l.append(7, 0, 3, batchOf(1), nil, "p").code, 45)
	b.is("the next", l.append(7, 0, 2, batchOf(1), nil, "p").code, 0)
	again := l.append(7, 0, 0, batchOf(2), nil, "p")
	if b.is("a duplicate", again.code, 0); again.base != first.base || l.end() != 3 {
		t.Errorf("a duplicate is at %d, the log ends at %d", again.base, l.end())
	}
	b.is("a first batch with sequence 1", l.append(8, 0, 1, batchOf(1), nil, "p").code, 45)
}

// member is a member that a test lets join; answers say what came.
type testMember struct {
	id, instance string
	join         joinAnswer
	sync         syncAnswer
	answered     bool
}

func (b *bench) joins(m *testMember) {
	m.answered = false
	b.group.join(m.id, m.instance, subscription{}, func(a joinAnswer) { m.join, m.answered = a, true })
}

func (b *bench) syncs(m *testMember, all map[string]syncAnswer) {
	m.sync = syncAnswer{code: -1}
	b.group.sync(m.join.id, m.instance, m.join.generation, all, func(a syncAnswer) { m.sync = a })
}

// stableGroup has two members in a generation that both know.
func (b *bench) stableGroup() (one, two *testMember) {
	one, two = &testMember{instance: "one"}, &testMember{instance: "two"}
	b.joins(one)
	one.id = one.join.id
	b.joins(two)
	b.joins(one)
	b.syncs(one, map[string]syncAnswer{one.join.id: {partitions: []record.TopicPartition{inLog}}})
	b.syncs(two, nil)
	two.id = two.join.id
	return one, two
}

// The group answers as the broker did that was asked.
func TestGroupCoordinatorAnswersAsABroker(t *testing.T) {
	b := newBench(t)
	one, two := b.stableGroup()
	g, generation := b.group, b.group.generation
	b.is("join", one.join.code, 0)
	b.is("sync", two.sync.code, 0)
	b.is("heartbeat", g.beat(one.id, "one", generation), 0)
	b.is("heartbeat of an older generation", g.beat(one.id, "one", generation-1), 22)
	b.is("heartbeat of somebody unknown", g.beat("x", "x", generation), 25)
	b.is("commit of a newer generation", g.commit(one.id, "one", generation+1, nil), 22)

	b.joins(two) // a rebalance begins
	b.is("heartbeat while it is prepared", g.beat(one.id, "one", generation), 27)
	b.is("commit while it is prepared", g.commit(one.id, "one", generation, nil), 0)
	b.syncs(one, nil)
	b.is("sync while it is prepared", one.sync.code, 27)
	b.joins(one)
	generation = g.generation
	b.is("heartbeat before the leader has synced", g.beat(one.id, "one", generation), 0)
	b.is("commit before the leader has synced", g.commit(one.id, "one", generation, nil), 27)
	_, id, pid, epoch := b.begun("t")
	b.is("announce", id.addOffsets(pid, epoch), 0)
	of := func(m *testMember, generation int32) int16 {
		return g.hold(id, pid, epoch, broker.Membership{Generation: generation, MemberID: m.id, InstanceID: m.instance}, broker.Offsets{inLog: {}})
	}
	b.is("offsets of a transaction before the leader has synced", of(one, generation), 0)
	b.is("the same with the previous generation", of(one, generation-1), 22)
	b.is("the same of somebody unknown", of(&testMember{id: "x", instance: "x"}, generation), 25)
	b.is("the same with another's member id", of(&testMember{id: "x", instance: "one"}, generation), 82)
	_, code := g.fetch([]record.TopicPartition{inLog}, true)
	b.is("stable offsets while they are pending", code, 88)
	_, code = g.fetch([]record.TopicPartition{inLog}, false)
	b.is("the others", code, 0)
}

// A static member that comes back has its place, and its predecessor is fenced; one that does not loses it with its session.
func TestStaticMembersAreKept(t *testing.T) {
	b := newBench(t)
	one, two := b.stableGroup()
	g, generation := b.group, b.group.generation
	back := &testMember{instance: "one"}
	b.joins(back)
	if b.is("join", back.join.code, 0); back.join.generation != generation || back.join.id == one.id || len(back.join.members) > 0 {
		t.Errorf("%+v: the same generation, another id, and it does not lead", back.join)
	}
	b.syncs(back, nil)
	if b.is("sync", back.sync.code, 0); len(back.sync.partitions) != 1 {
		t.Errorf("it gets %v", back.sync.partitions)
	}
	b.is("heartbeat of the one before", g.beat(one.id, "one", generation), 82)
	b.is("commit of the one before", g.commit(one.id, "one", generation, nil), 82)
	b.joins(&testMember{id: one.id, instance: "one"})
	b.is("the other member is left alone", g.beat(two.id, "two", generation), 0)
	for range 5 {
		b.wait(3 * time.Second)
		g.beat(two.id, "two", generation)
	}
	b.is("heartbeat of the one that was silent", g.beat(back.join.id, "one", generation), 25)
	b.is("heartbeat of the rest", g.beat(two.id, "two", generation), 27)
}

// A transaction can be committed before its marker is in every log: a reader stops there, and the end of the log is beyond.
func TestLastStableOffsetWaitsForTheMarker(t *testing.T) {
	b := newBench(t)
	_, id, pid, epoch := b.begun("a")
	l := b.logs[outLog]
	if l.stable() != 0 || l.end() != 1 {
		t.Fatal(l.stable(), l.end())
	}
	id.endTxn(pid, epoch, committed)
	if l.stable() != 0 || l.read(0, 9, true).Next != 0 || l.read(0, 9, false).Next != 1 {
		t.Error("the marker is not written yet")
	}
	b.wait(time.Second)
	got := l.read(0, 9, true)
	if l.stable() != 2 || got.Next != 2 || len(got.Records) != 1 {
		t.Errorf("stable %d, read %+v", l.stable(), got)
	}
}
