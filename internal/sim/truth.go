package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// truth knows what is right: the input, and what a single run without faults makes of it.
type truth struct {
	world *world
	// fed are the values that were written to the input, in order; all says that there is no more.
	fed []string
	// places are, by partition of the repartition topic, where the records of each key are that count, as far as is known.
	places []map[string][]int64
	known  []int64
	quiet  int
}

func newTruth(w *world) *truth {
	t := &truth{world: w, known: make([]int64, w.plan.Partitions)}
	for range w.plan.Partitions {
		t.places = append(t.places, map[string][]int64{})
	}
	return t
}

// keyOf is what a record is counted by. A few keys are common and some are rare.
func keyOf(value string) string {
	n := 0
	for _, c := range value {
		n = n*31 + int(c)
	}
	n &= 0xffff
	if n%3 == 0 {
		return fmt.Sprintf("hot%d", n%2)
	}
	return fmt.Sprintf("key%d", n%17)
}

// feed writes the input over time, in small bursts.
func (w *world) feed() {
	left, gap := w.plan.Records, w.plan.Feed/time.Duration(max(w.plan.Records/3, 1))
	var burst func()
	burst = func() {
		for range min(left, 1+w.rng.IntN(5)) {
			value := fmt.Sprintf("r%d", len(w.truth.fed))
			p := int32(w.rng.IntN(w.plan.Partitions))
			at := epochStart.Add(w.now).UnixMilli() + w.rng.Int64N(2000) - 1000
			if w.chance(50) {
				at += 3600_000 // a clock that is wrong
			}
			w.truth.fed = append(w.truth.fed, value)
			w.logs[record.TopicPartition{Topic: inputTopic, Partition: p}].add(record.Raw{Key: []byte("k"), Value: []byte(value), Timestamp: at}, "feed")
			left--
		}
		if left > 0 {
			w.after(w.between(gap/2, gap*3/2), burst)
		}
	}
	w.after(500*time.Millisecond, burst)
	var flushes func()
	flushes = func() {
		if n := pick(w, w.nodes); n.present {
			n.proc.flushAll()
		}
		w.after(w.between(2*time.Second, 8*time.Second), flushes)
	}
	w.after(3*time.Second, flushes)
}

// counted looks further into a log whose last stable offset has moved.
func (t *truth) counted(l *partition) {
	if l.tp.Topic != wordsTopic {
		return
	}
	p := l.tp.Partition
	for end := l.stable(); t.known[p] < end; t.known[p]++ {
		if e := &l.log[t.known[p]]; e.counts() {
			t.places[p][string(e.raw.Key)] = append(t.places[p][string(e.raw.Key)], t.known[p])
		}
	}
}

// at is the count of a key, as of a position in the repartition topic.
func (t *truth) at(p int32, key string, position int64) int64 {
	t.counted(t.world.logs[record.TopicPartition{Topic: wordsTopic, Partition: p}])
	places := t.places[p][key]
	return int64(sort.Search(len(places), func(i int) bool { return places[i] >= position }))
}

// all are the counts of a partition, as of a position.
func (t *truth) all(p int32, position int64) map[string]int64 {
	t.counted(t.world.logs[record.TopicPartition{Topic: wordsTopic, Partition: p}])
	m := map[string]int64{}
	for key := range t.places[p] {
		if n := t.at(p, key, position); n > 0 {
			m[key] = n
		}
	}
	return m
}

// holds compares counts: they are those of the position, or at least once with nothing missing.
func (t *truth) holds(what string, got map[string]int64, p int32, position int64) {
	want := t.all(p, position)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if n := got[key]; n < want[key] || n > want[key] && t.world.plan.ExactlyOnce {
			t.world.fail("%s, partition %d at %d: %d of %s, and it should be %d", what, p, position, n, key, want[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if want[key] == 0 && t.world.plan.ExactlyOnce {
			t.world.fail("%s, partition %d at %d: %d of %s, of which there is none", what, p, position, got[key], key)
		}
	}
}

// restored is called when a task starts to run: its state must be what its position says, and that must be where the task
// starts. A node that has lost the task and does not know it yet may find more in the changelog than was committed when it
// asked: it says so, and cannot commit anything.
func (t *truth) restored(p *process, id record.TaskID, at broker.Offsets) {
	if id.SubTopology != countTask {
		return
	}
	k := p.states.keepers[id]
	if k == nil || k.state == nil {
		t.world.fail("%s runs %s without its state", p.name, id)
	}
	if k.state.Err() != nil {
		return
	}
	source := record.TopicPartition{Topic: wordsTopic, Partition: id.Partition}
	position := k.state.Position()[source]
	if position < at[source].At || position > at[source].At && t.world.plan.ExactlyOnce && p.isCurrent() {
		t.world.fail("%s: %s is restored to %d, and starts at %d", p.name, id, position, at[source].At)
	}
	if got, ok := p.contents(id); ok {
		t.holds(p.name+": restored state", got, id.Partition, position)
	}
}

// contents are the entries of a task's store; ok is false if they cannot be read.
func (p *process) contents(id record.TaskID) (all map[string]int64, ok bool) {
	all = map[string]int64{}
	for e, err := range p.states.keepers[id].state.Scan(0, nil, nil, false) {
		if err != nil {
			return nil, false
		}
		all[string(e.Key)] = int64(binary.BigEndian.Uint64(e.Value))
	}
	return all, true
}

// applies is called with each unit on its way to the disk: Kafka must have it.
func (t *truth) applies(p *process, u *task.Unit) {
	g := t.world.group
	for _, tp := range sortedOffsets(u.Offsets) {
		at := u.Offsets[tp].At
		known := g.highest[tp]
		for _, held := range g.pending {
			known = max(known, held[tp].At)
		}
		if at > known {
			t.world.fail("%s applies %s at %d, and the group knows %d", p.name, tp, at, known)
		}
	}
}

// decided is called when a coordinator decides to commit: what the transaction holds must be whole.
func (t *truth) decided(id *identity) {
	held := t.world.group.pending[id.pid]
	for _, tp := range sortedPartitions(id.partitions) {
		o := t.world.logs[tp].open[id.pid]
		if o == nil {
			continue
		}
		e := &t.world.logs[tp].log[o.first]
		switch tp.Topic {
		case changelogTopic:
			t.covered(id, held, record.TopicPartition{Topic: wordsTopic, Partition: tp.Partition}, e)
		case wordsTopic, outputTopic:
			if len(held) == 0 {
				t.world.fail("%s commits records of %s without any offsets", id.id, tp)
			}
		}
	}
}

// covered: the changelog's records of a task are committed together with the task's offsets.
func (t *truth) covered(id *identity, held broker.Offsets, source record.TopicPartition, e *written) {
	if _, ok := held[source]; !ok {
		t.world.fail("%s commits changelog records of %s without the offsets of %s", e.by, id.id, source)
	}
}

// reached says that everything was processed and committed.
func (t *truth) reached() bool {
	w := t.world
	if len(t.fed) < w.plan.Records || len(w.group.pending) > 0 || w.group.state != groupStable {
		return false
	}
	for _, l := range w.order {
		source := l.tp.Topic == inputTopic || l.tp.Topic == wordsTopic
		if o, ok := w.group.committed[l.tp]; source && (!ok && l.end() > 0 || ok && o.At != l.end() && !w.group.setBack(l.tp)) || l.stable() != l.end() {
			return false
		}
	}
	for _, n := range w.nodes {
		// One that was told to stop comes back too; until then its tasks may be nobody's.
		if !n.present || n.proc.loop == nil || n.proc.loop.State() != lifecycle.ThreadRunning || !n.proc.isCurrent() {
			return false
		}
		// A slow disk may keep the state of a task that has left open: it is closed when its turn comes.
		if n.proc.states.busy() {
			return false
		}
	}
	t.quiet++
	return t.quiet > 4
}

// missing says what is not as it should be.
func (t *truth) missing() string {
	w := t.world
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d records written, group state %d, %d pending", len(t.fed), w.plan.Records, w.group.state, len(w.group.pending))
	for _, l := range w.order {
		if l.tp.Topic == inputTopic || l.tp.Topic == wordsTopic {
			fmt.Fprintf(&b, "; %s at %d of %d, stable %d, owner %q", l.tp, w.group.committed[l.tp].At, l.end(), l.stable(), w.group.owner(l.tp))
		}
	}
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "; %s present %t", n.name, n.present)
		if n.present && n.proc.loop != nil {
			fmt.Fprintf(&b, " %s, member %s %q, producer %s", n.proc.loop.State(), n.proc.membership.machine.Phase(), n.proc.membership.machine.ID(), n.proc.producer.machine.State())
		}
	}
	return b.String()
}

// settle holds what is left against the truth, when everything has come to rest.
func (t *truth) settle() {
	t.checkWords()
	t.checkOutputs()
	t.checkStates()
	for _, c := range t.world.clients {
		c.settle()
	}
	for _, c := range t.world.crowds {
		c.settle()
	}
}

// checkWords: each record of the input is in the repartition topic, once.
func (t *truth) checkWords() {
	seen := map[string]int{}
	for p := range int32(t.world.plan.Partitions) {
		for _, r := range t.world.logs[record.TopicPartition{Topic: wordsTopic, Partition: p}].visible() {
			seen[string(r.Value)]++
		}
	}
	for _, value := range t.fed {
		if n := seen[value]; n == 0 || n > 1 && t.world.plan.ExactlyOnce {
			t.world.fail("record %s is %d times in the repartition topic", value, n)
		}
	}
	if len(seen) != len(t.fed) {
		t.world.fail("the repartition topic has %d different records, and there are %d", len(seen), len(t.fed))
	}
}

// checkOutputs: the outputs of a key are its counts, one after the other; without every update they rise. The last is the
// number of its records.
func (t *truth) checkOutputs() {
	last := map[string]int64{}
	for p := range int32(t.world.plan.Partitions) {
		for _, r := range t.world.logs[record.TopicPartition{Topic: outputTopic, Partition: p}].visible() {
			key, n := string(r.Key), int64(binary.BigEndian.Uint64(r.Value))
			switch {
			case !t.world.plan.ExactlyOnce:
			case t.world.plan.EveryUpdate && n != last[key]+1, n <= last[key]:
				t.world.fail("the output of %s says %d after %d", key, n, last[key])
			}
			last[key] = max(last[key], n)
		}
	}
	for p := range int32(t.world.plan.Partitions) {
		all := t.all(p, t.world.logs[record.TopicPartition{Topic: wordsTopic, Partition: p}].end())
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if n := last[key]; n < all[key] || n > all[key] && t.world.plan.ExactlyOnce {
				t.world.fail("the last output of %s says %d, and there are %d", key, n, all[key])
			}
		}
	}
}

// checkStates: the changelogs are the counts, and each store that is open is its changelog; there is one of each.
func (t *truth) checkStates() {
	for p := range int32(t.world.plan.Partitions) {
		folded := map[string]int64{}
		for _, r := range t.world.logs[record.TopicPartition{Topic: changelogTopic, Partition: p}].visible() {
			folded[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
		}
		t.holds("changelog", folded, p, t.world.logs[record.TopicPartition{Topic: wordsTopic, Partition: p}].end())
		owners, id := 0, record.TaskID{SubTopology: countTask, Partition: p}
		for _, n := range t.world.present() {
			k := n.proc.states.keepers[id]
			if k == nil || k.state == nil {
				continue
			}
			owners++
			if got, _ := n.proc.contents(id); !maps.Equal(got, folded) {
				t.world.fail("%s: the store of %s holds %v, and its changelog %v", n.name, id, got, folded)
			}
		}
		if owners != 1 {
			t.world.fail("%s has %d owners", id, owners)
		}
	}
}
