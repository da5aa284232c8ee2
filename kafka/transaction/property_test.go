package transaction_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// world answers a machine's requests at random and keeps the books that the package promises.
type world struct {
	t   *rapid.T
	m   *transaction.Machine
	now time.Time

	transactional bool
	request       transaction.Effect // without an answer
	flying        []*transaction.Batch
	interval      uint64
	token         uint64

	pid        int64
	epoch      int16
	added      map[record.TopicPartition]bool
	next       map[record.TopicPartition]int32 // sequence
	indefinite bool
	held       bool // offsets, of the transaction that is open
	wantsHeld  bool
	ending     bool // EndTxn(commit) went out and is not answered clearly

	flushes, commits, aborts []uint64
	flushed                  bool // the last flush was answered well, and neither commit nor abort came since
	buffered                 int
	deaf                     map[uint64]bool // tokens that an abort has silenced
	carried                  bool            // the transaction that ended had something indefinite, and the epoch is still the same
	pending                  map[uint64][]*transaction.Batch
	written                  map[*transaction.Batch]bool
	log                      map[place]*transaction.Batch
	span                     map[*transaction.Batch][2]int // its place in the order of its partition; parts share their batch's
	last                     map[record.TopicPartition]int // of what is written
	flushing                 map[uint64]uint64             // token to interval
}

// place is where a partition's log has a batch, under the present epoch.
type place struct {
	tp       record.TopicPartition
	sequence int32
}

func newWorld(t *rapid.T, transactional bool) *world {
	w := &world{t: t, now: time.Unix(1000, 0), transactional: transactional, pid: -1, epoch: -1, added: map[record.TopicPartition]bool{},
		next: map[record.TopicPartition]int32{}, deaf: map[uint64]bool{},
		pending: map[uint64][]*transaction.Batch{}, written: map[*transaction.Batch]bool{}, log: map[place]*transaction.Batch{}, span: map[*transaction.Batch][2]int{},
		last: map[record.TopicPartition]int{}, flushing: map[uint64]uint64{}}
	w.m = transaction.New(settings(transactional))
	return w
}

func settings(transactional bool) transaction.Config {
	return transaction.Config{
		Transactional: transactional, TransactionTimeout: 30 * time.Second, DeliveryTimeout: 20 * time.Second, Pipeline: 3,
		Error: func(op broker.Op, code int16, in transaction.Situation) *broker.Error {
			return &broker.Error{Op: op, Code: code, Class: kafka.Classify(op, code, in)}
		},
		Known: func(op broker.Op, code int16) bool { return code != 99 },
		Backoff: func(n int) time.Duration {
			return min(10*time.Millisecond<<min(n, 10), time.Second)
		},
	}
}

func (w *world) take(effects []transaction.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case transaction.Release:
			if slices.Contains(w.flying, e.Batch) {
				w.t.Fatal("a batch that is under way is given back")
			}
			if w.buffered--; w.buffered < 0 {
				w.t.Fatal("a batch is given back twice")
			}
		case transaction.Refused:
			w.replace(e)
		case transaction.Deliver:
			w.hear(e.Event)
		default:
			if w.request != nil {
				w.t.Fatalf("%T while %T is under way", e, w.request)
			}
			w.request = e
			w.check(e)
		}
	}
}

// check is for what may be asked of a coordinator.
func (w *world) check(e transaction.Effect) {
	switch e := e.(type) {
	case transaction.AddPartitions, transaction.AddOffsets:
		if w.carried {
			w.t.Fatalf("%T under an epoch in which something is indefinite", e)
		}
	case transaction.TxnOffsetCommit:
		w.wantsHeld = true
	case transaction.EndTxn:
		if len(w.flying) > 0 {
			w.t.Fatal("EndTxn while batches are under way")
		}
		if e.Commit && w.wantsHeld && !w.held {
			w.t.Fatal("EndTxn(commit) after offsets that were not taken")
		}
		if !e.Commit && w.ending {
			w.t.Fatal("EndTxn(abort) while the outcome of a commit is not known")
		}
		w.ending = w.ending || e.Commit
	case transaction.InitProducerID:
		if len(w.flying) > 0 {
			w.t.Fatal("InitProducerId while batches are under way")
		}
	}
}

func (w *world) hear(e broker.Event) {
	answered := func(kind string, from *[]uint64, token uint64) {
		if w.deaf[token] {
			w.t.Fatalf("%s %d was superseded by an abort and is answered", kind, token)
		}
		if len(*from) == 0 || (*from)[0] != token {
			w.t.Fatalf("%s %d is answered, waiting are %v", kind, token, *from)
		}
		*from = (*from)[1:]
	}
	switch e := e.(type) {
	case broker.Flushed:
		answered("flush", &w.flushes, e.Token)
		w.flushed = e.Err == nil && len(w.flushes) == 0
		for _, b := range w.pending[w.flushing[e.Token]] {
			if e.Err == nil && !w.written[b] {
				w.t.Fatal("flushed, and a batch of the interval is not written")
			}
		}
	case broker.TransactionEnded:
		answered("commit", &w.commits, e.Token)
	case broker.TransactionAborted:
		answered("abort", &w.aborts, e.Token)
		if len(w.flying) > 0 && w.transactional {
			w.t.Fatal("aborted while batches are under way")
		}
	}
}

func (w *world) replace(e transaction.Refused) {
	var parts []*transaction.Batch
	if n := e.Batch.Records; n > 1 && !e.Whole {
		parts = []*transaction.Batch{{To: e.Batch.To, Interval: e.Batch.Interval, Records: n / 2}, {To: e.Batch.To, Interval: e.Batch.Interval, Records: n - n/2}}
	}
	for i, p := range parts {
		span := w.span[e.Batch]
		half := (span[1] - span[0]) / 2
		w.span[p] = [2]int{span[0] + i*half, span[0] + (i+1)*half}
	}
	w.buffered += len(parts)
	of := w.pending[e.Batch.Interval]
	w.pending[e.Batch.Interval] = append(slices.DeleteFunc(of, func(b *transaction.Batch) bool { return b == e.Batch }), parts...)
	w.take(w.m.Replace(w.now, e.Batch, parts, nil))
}

func (w *world) partition() record.TopicPartition {
	return record.TopicPartition{Topic: "t", Partition: int32(rapid.IntRange(0, 2).Draw(w.t, "partition"))}
}

// send sends what is ready, or a part of it.
func (w *world) send() {
	for range 3 {
		var failures []transaction.Failure
		for _, b := range slices.Collect(w.m.Ready(w.now)) {
			if rapid.IntRange(0, 9).Draw(w.t, "no leader") == 0 {
				failures = append(failures, transaction.Failure{Batch: b, Code: transaction.NotSent})
				continue
			}
			if w.transactional && !w.added[b.To] {
				w.t.Fatalf("a batch goes to %s, which is not in the transaction", b.To)
			}
			pid, epoch := w.m.Sent(b)
			if pid != w.pid || epoch != w.epoch {
				w.t.Fatalf("a batch is sent under %d/%d, the coordinator gave %d/%d", pid, epoch, w.pid, w.epoch)
			}
			w.flying = append(w.flying, b)
		}
		if len(failures) > 0 {
			w.take(w.m.Failed(w.now, failures))
		}
	}
}

var answers = []int16{0, 0, 0, 0, 0, 0, 51, 15, 16, transaction.Transport, transaction.NotSent, 90, 47, 48, 49, 22, 53, 99, 3}

func (w *world) answer() {
	e := w.request
	if e == nil {
		return
	}
	w.request = nil
	code := rapid.SampledFrom(answers).Draw(w.t, "code")
	a := transaction.Answer{Code: code}
	switch e := e.(type) {
	case transaction.InitProducerID:
		if code == 0 {
			w.initialize(e, &a)
		}
	case transaction.AddPartitions:
		w.add(e, &a)
	case transaction.AddOffsets:
		w.indefinite = w.indefinite || code == transaction.Transport
	case transaction.TxnOffsetCommit:
		w.indefinite = w.indefinite || code == transaction.Transport
		w.held = code == 0
	case transaction.EndTxn:
		w.end(e, code)
	}
	w.take(w.m.Answered(w.now, a))
}

func (w *world) initialize(e transaction.InitProducerID, a *transaction.Answer) {
	w.pid, w.epoch = max(e.PID, 7), e.Epoch+1
	if e.PID < 0 {
		w.pid = w.pid + 1
	}
	a.PID, a.Epoch = w.pid, w.epoch
	w.indefinite, w.ending, w.carried = false, false, false
	clear(w.next)
	clear(w.log)
	w.over()
}

func (w *world) add(e transaction.AddPartitions, a *transaction.Answer) {
	if a.Code == transaction.Transport {
		w.indefinite = true
	}
	if a.Code != 0 && a.Code != 3 {
		return
	}
	a.Codes = map[record.TopicPartition]int16{}
	bad := a.Code == 3
	a.Code = 0
	for i, tp := range e.Partitions {
		switch {
		case bad && i == 0:
			a.Codes[tp] = 3
		case bad:
			a.Codes[tp] = 55
		default:
			a.Codes[tp] = 0
			w.added[tp] = true
		}
	}
}

func (w *world) end(e transaction.EndTxn, code int16) {
	switch {
	case code == 0:
		w.ending, w.carried = false, w.indefinite
		w.over()
	case e.Commit && (code == transaction.Transport || code == 15 || code == 16):
		w.indefinite = true
	case code == 51 || code == transaction.NotSent:
	default:
		w.ending = false
	}
}

// over is the end of a transaction.
func (w *world) over() {
	clear(w.added)
	w.held, w.wantsHeld = false, false
}

func (w *world) produced() {
	if len(w.flying) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.flying)-1).Draw(w.t, "which")
	b := w.flying[i]
	// Answers of one partition come in order.
	for j, f := range w.flying[:i] {
		if f.To == b.To {
			i, b = j, f
			break
		}
	}
	w.flying = slices.Delete(w.flying, i, i+1)
	r := transaction.Result{Base: -1}
	fault := rapid.SampledFrom([]int16{0, 0, 0, 0, 0, 10, 6, 19, transaction.Transport, 47, 48, 29, 99}).Draw(w.t, "produce")
	next := w.next[b.To]
	switch {
	case fault == 10, fault == 6, fault == 19, fault == 47, fault == 48, fault == 29, fault == 99: // nothing is written
		r.Code = fault
	case b.Sequence() > next:
		r.Code = 45
	case b.Sequence() < next: // a duplicate, if it is one
		if w.log[place{b.To, b.Sequence()}] != b {
			w.t.Fatalf("sequence %d of %d records, the log is at %d: they are lost as duplicates", b.Sequence(), b.Records, next)
		}
	default:
		w.next[b.To] = next + b.Records
		w.written[b] = true
		w.log[place{b.To, next}] = b
		if w.span[b][0] < w.last[b.To] && w.transactional {
			w.t.Fatal("the log is out of order")
		}
		w.last[b.To] = w.span[b][0]
		r.Base = int64(next)
	}
	if fault == transaction.Transport && r.Code == 0 {
		r = transaction.Result{Code: transaction.Transport, Base: -1}
		w.indefinite = true
	}
	w.take(w.m.Produced(w.now, b, r))
}

func (w *world) steps() map[string]func() {
	return map[string]func(){
		"put": func() {
			to := w.partition()
			if rapid.Bool().Draw(w.t, "touch") {
				w.take(w.m.Touch(w.now, to, w.interval))
			}
			w.buffered++
			b := &transaction.Batch{To: to, Interval: w.interval, Records: int32(rapid.IntRange(1, 3).Draw(w.t, "records"))}
			w.pending[w.interval] = append(w.pending[w.interval], b)
			w.span[b] = [2]int{len(w.span) << 10, (len(w.span) + 1) << 10}
			w.take(w.m.Put(w.now, b))
		},
		"flush": func() {
			if len(w.flushes) > 0 || (w.flushed && w.transactional) {
				return
			}
			w.token++
			w.flushes = append(w.flushes, w.token)
			w.flushing[w.token] = w.interval
			w.interval++
			w.take(w.m.Flush(w.now, w.token, w.interval-1))
		},
		"commit": func() {
			if !w.transactional || !w.flushed || len(w.commits) > 0 {
				return
			}
			w.token++
			w.commits, w.flushed = append(w.commits, w.token), false
			offsets := broker.Offsets{}
			if rapid.IntRange(0, 5).Draw(w.t, "offsets") > 0 {
				offsets[record.TopicPartition{Topic: "in"}] = broker.Offset{At: 5}
			}
			w.take(w.m.Commit(w.now, w.token, offsets, broker.Membership{Group: "g"}))
		},
		"abort": func() {
			if rapid.IntRange(0, 2).Draw(w.t, "really") > 0 {
				return
			}
			w.token++
			for _, token := range slices.Concat(w.flushes, w.commits) {
				w.deaf[token] = true
			}
			w.flushes, w.commits, w.flushed = nil, nil, false
			w.aborts = append(w.aborts, w.token)
			w.interval++
			w.take(w.m.Abort(w.now, w.token, w.interval))
		},
		"answer":   w.answer,
		"produced": w.produced,
		"send":     w.send,
		"time": func() {
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 50 * time.Millisecond, 2 * time.Second, 25 * time.Second}).Draw(w.t, "pause"))
			w.take(w.m.Tick(w.now))
		},
	}
}

// settle answers everything well until nothing moves, and checks that nothing was left without an answer.
func (w *world) settle() {
	for range 400 {
		w.now = w.now.Add(2 * time.Second)
		w.take(w.m.Tick(w.now))
		if e := w.request; e != nil {
			w.request = nil
			a := transaction.Answer{}
			switch e := e.(type) {
			case transaction.InitProducerID:
				w.initialize(e, &a)
			case transaction.AddPartitions:
				w.add(e, &a)
			case transaction.TxnOffsetCommit:
				w.held = true
			case transaction.EndTxn:
				w.end(e, 0)
			}
			w.take(w.m.Answered(w.now, a))
		}
		for b := range w.m.Ready(w.now) {
			w.m.Sent(b)
			w.flying = append(w.flying, b)
		}
		for len(w.flying) > 0 {
			b := w.flying[0]
			w.flying = w.flying[1:]
			r := transaction.Result{Base: 1}
			if b.Sequence() > w.next[b.To] {
				r.Code = 45
			} else {
				w.next[b.To] = max(w.next[b.To], b.Sequence()+b.Records)
				w.written[b] = true
			}
			w.take(w.m.Produced(w.now, b, r))
		}
	}
}

func (w *world) finish() {
	w.settle()
	over := w.m.State() == transaction.AbortableError || w.m.State() == transaction.Fenced || w.m.State() == transaction.Fatal ||
		w.m.State() == transaction.CommitUnknown
	if len(w.aborts) > 0 || len(w.commits) > 0 {
		w.t.Fatalf("in %s, aborts %v and commits %v are not answered", w.m.State(), w.aborts, w.commits)
	}
	if len(w.flushes) > 0 && !over {
		w.t.Fatalf("in %s, flushes %v are not answered", w.m.State(), w.flushes)
	}
	// An abort makes it usable, whatever it was in: the second one at the latest, after a fence.
	for range 2 {
		w.steps()["abort"]()
		if len(w.aborts) == 0 {
			w.token++
			w.aborts, w.flushes = append(w.aborts, w.token), nil
			w.interval++
			w.take(w.m.Abort(w.now, w.token, w.interval))
		}
		w.settle()
	}
	if s := w.m.State(); s != transaction.Ready && (w.transactional || s != transaction.Uninitialized) {
		w.t.Fatal("after an abort and answers that are all good, the state is ", s)
	}
	if w.buffered != 0 || !w.m.Idle() || len(w.aborts) > 0 {
		w.t.Fatalf("%d batches are left, aborts %v", w.buffered, w.aborts)
	}
}

func TestEveryPromiseUnderRandomAnswers(t *testing.T) {
	for _, transactional := range []bool{true, false} {
		t.Run(fmt.Sprint("transactional=", transactional), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, transactional)
				w.take(w.m.Tick(w.now))
				steps := w.steps()
				names := []string{"put", "put", "flush", "commit", "abort", "answer", "answer", "answer", "produced", "produced", "send", "send", "time"}
				for range rapid.IntRange(1, 120).Draw(t, "steps") {
					steps[rapid.SampledFrom(names).Draw(t, "step")]()
				}
				w.finish()
			})
		})
	}
}
