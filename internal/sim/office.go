package main

import (
	"hash/fnv"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// transactionTimeout is how long a transaction may be open.
const transactionTimeout = 30 * time.Second

// office is a transaction coordinator: what it answers is in facts of a real broker, and model_test.go names them.
type office struct {
	world   *world
	on      *server
	ids     map[string]*identity
	loading time.Duration
}

// transactionState is where a transactional id stands.
type transactionState uint8

const (
	stateEmpty transactionState = iota
	stateOngoing
	stateEnding
	stateComplete
)

// identity is a transactional id as its coordinator knows it.
type identity struct {
	office *office
	id     string
	pid    int64
	// epoch is the present one; last is the one before if its owner may still come back with it, else -1.
	epoch, last int16
	state       transactionState
	how         outcome
	partitions  map[record.TopicPartition]bool
	group       bool
	// began numbers transactions, so that a time-out is for the one that it was set for.
	began uint64
}

func (w *world) officeOf(id string) *office {
	h := fnv.New32a()
	h.Write([]byte(id))
	return w.offices[h.Sum32()%uint32(len(w.offices))]
}

func (o *office) load() { o.loading = o.world.now + o.world.between(loadingLow, loadingHigh) }

func (o *office) move(to *server) {
	o.world.say("a transaction coordinator moves to broker %d", to.id)
	o.on = to
	o.load()
}

// refuse is the code of an office that cannot answer: it is elsewhere, or not ready.
func (o *office) refuse(asked *server) int16 {
	switch {
	case o.on != asked:
		return codeNotCoordinator
	case o.world.now < o.loading:
		return codeLoading
	}
	return 0
}

// producerID numbers producer ids.
func (w *world) producerID() int64 {
	w.tally.Producers++
	return 1000 + int64(w.tally.Producers)
}

// initialize is InitProducerId.
func (o *office) initialize(id string, pid int64, epoch int16) (newPID int64, newEpoch int16, code int16) {
	t := o.ids[id]
	if t == nil {
		t = &identity{office: o, id: id, pid: o.world.producerID(), epoch: -1, last: -1}
		o.ids[id] = t
		pid = -1
	}
	switch {
	case t.state == stateEnding:
		return -1, -1, codeConcurrent
	case pid >= 0 && pid != t.pid:
		return -1, -1, codeFenced
	case t.state == stateOngoing:
		// Whoever asks: the open transaction is aborted first. A producer that was fenced aborts its successor's this way.
		t.abandon()
		return -1, -1, codeConcurrent
	case pid < 0:
		t.epoch, t.last = t.epoch+1, -1
	case epoch == t.epoch:
		t.epoch, t.last = t.epoch+1, epoch
	case epoch != t.last || t.last < 0:
		return -1, -1, codeFenced
	}
	t.state = stateEmpty
	return t.pid, t.epoch, 0
}

// abandon aborts the open transaction under the next epoch: its producer is shut out until it initialises again.
func (t *identity) abandon() {
	t.epoch, t.last = t.epoch+1, t.epoch
	t.end(aborted)
}

// check is what all requests of a transaction are held against.
func (t *identity) check(pid int64, epoch int16) int16 {
	switch {
	case t == nil || t.pid != pid:
		return codeUnknownProducer
	case t.epoch != epoch:
		return codeFenced
	}
	return 0
}

// join is what AddPartitionsToTxn and AddOffsetsToTxn have in common.
func (t *identity) join(pid int64, epoch int16) int16 {
	if code := t.check(pid, epoch); code != 0 {
		return code
	}
	if t.state == stateEnding {
		return codeConcurrent
	}
	if t.state != stateOngoing {
		t.state, t.partitions, t.group = stateOngoing, map[record.TopicPartition]bool{}, false
		t.began++
		t.watch(t.began)
	}
	return 0
}

// watch aborts a transaction that is open for too long. The coordinator looks every 10 s.
func (t *identity) watch(began uint64) {
	w := t.office.world
	w.after(transactionTimeout+w.between(0, 10*time.Second), func() { t.expire(began) })
}

func (t *identity) expire(began uint64) {
	if t.state != stateOngoing || t.began != began {
		return
	}
	if !t.office.on.up {
		t.office.world.after(time.Second, func() { t.expire(began) })
		return
	}
	t.office.world.say("the transaction of %s has timed out", t.id)
	t.office.world.tally.TimedOut++
	t.abandon()
}

// add is AddPartitionsToTxn.
func (t *identity) add(pid int64, epoch int16, tps []record.TopicPartition) int16 {
	code := t.join(pid, epoch)
	if code == 0 {
		for _, tp := range tps {
			t.partitions[tp] = true
		}
	}
	return code
}

// addOffsets is AddOffsetsToTxn.
func (t *identity) addOffsets(pid int64, epoch int16) int16 {
	code := t.join(pid, epoch)
	t.group = t.group || code == 0
	return code
}

// verify is what a leader asks about the first batch of a partition.
func (t *identity) verify(pid int64, epoch int16, tp record.TopicPartition) int16 {
	switch {
	case t.pid == pid && epoch < t.epoch:
		return codeStaleEpoch
	case t.pid != pid || t.state != stateOngoing || !t.partitions[tp]:
		return codeTransactionState
	}
	return 0
}

// endTxn is EndTxn.
func (t *identity) endTxn(pid int64, epoch int16, how outcome) int16 {
	if code := t.check(pid, epoch); code != 0 {
		return code
	}
	switch {
	case t.state == stateOngoing:
		t.end(how)
		return 0
	case t.state == stateEnding:
		return codeConcurrent
	case t.state == stateComplete && t.how == how:
		return 0
	}
	return codeTransactionState
}

// end decides. From here on nothing can change the outcome; the markers follow.
func (t *identity) end(how outcome) {
	w := t.office.world
	t.state, t.how = stateEnding, how
	if how == committed {
		w.truth.decided(t)
		w.tally.Commits++
	} else {
		w.tally.Aborts++
	}
	w.say("%s: the transaction is decided: committed %t", t.id, how == committed)
	e := &transactionEnd{id: t.id, pid: t.pid, epoch: t.epoch, how: how, done: func() { t.state = stateComplete }}
	w.endTransaction(e, sortedPartitions(t.partitions), t.group)
}

// Describe says whether a transaction is open.
func (t *identity) isOpen() bool { return t != nil && t.state == stateOngoing }

// any gives a producer id without transactions.
func (w *world) any() (pid int64, epoch int16) { return w.producerID(), 0 }

// ask sends a request to the coordinator of a transactional id. carry gives its code.
func (p *process) askOffice(role, id string, op broker.Op, carry func(o *office, t *identity) (code int16, then func()), lost func(int16)) {
	o := p.world.officeOf(id)
	to := p.where(o, o.on)
	p.request(role, op, to, func(answer func(func())) {
		code := o.refuse(to)
		then := func() { lost(code) }
		if code == 0 {
			code, then = carry(o, o.ids[id])
		}
		answer(func() {
			p.world.say("%s: %s answered %d", p.name, op, code)
			if code == codeNotCoordinator {
				p.forget(o)
			}
			then()
		})
	}, func(code int16) {
		p.forget(o)
		lost(code)
	})
}
