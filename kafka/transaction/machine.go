package transaction

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Config is what a Machine needs to know.
type Config struct {
	// Transactional says that the producer has a transactional id; without one it is idempotent.
	Transactional bool
	// TransactionTimeout is the coordinator's. A commit without a clear answer is repeated for twice as long.
	TransactionTimeout time.Duration
	// DeliveryTimeout is how long a batch, a partition or a group's offsets are tried.
	DeliveryTimeout time.Duration
	// Pipeline is how many batches of a partition may be under way. Brokers know the last 5 again.
	Pipeline int
	// Error classifies a code.
	Error func(broker.Op, int16, Situation) *broker.Error
	// Known says that the table of codes holds the code for the request.
	Known func(broker.Op, int16) bool
	// Backoff is the pause before the given attempt, 1 being the second.
	Backoff func(attempt int) time.Duration
}

func (c *Config) strange(op broker.Op, code int16) bool { return !c.Known(op, code) }

// Machine is one producer. Its zero value is not usable; see New.
type Machine struct {
	cfg     Config
	state   State
	now     time.Time
	effects []Effect

	pid    int64
	epoch  int16
	born   bool // the id was initialised once
	lines  map[record.TopicPartition]*line
	order  []*line
	flying int

	// current is the interval of the open transaction, or of the next one. txn numbers transactions.
	current   uint64
	txn       uint64
	intervals []*interval // ascending
	flushes   []flush
	commit    *commit
	aborts    []uint64 // tokens
	keep      uint64   // what is of an earlier interval is taken back
	adding    []*line
	try       try

	// begun: the coordinator may have a transaction open. indefinite: a request of this epoch may still arrive late. bump: a
	// sequence is in doubt. Both end with another epoch, at the latest before the next transaction.
	begun, indefinite, bump bool
	// suspect: a code said that somebody else may own the id.
	suspect bool
	// told: the owner has heard that the producer is fenced.
	told    bool
	strange bool
	err     *broker.Error // why AbortableError, Fenced, Fatal
	counts  Counts
}

// interval is what was appended between two flushes.
type interval struct {
	number  uint64
	batches int
	touched []*line
	flushed bool // and the flush was answered
	ends    map[record.TopicPartition]int64
	refused []broker.Refused
	err     *broker.Error
}

type flush struct{ token, interval uint64 }

// try is the request to a coordinator that is under way (out), or will be made again at.
type try struct {
	op  broker.Op
	out bool
	// repeated: it was sent before and got no clear answer.
	repeated bool
	attempts int
	since    time.Time
	at       time.Time
}

// New returns a machine that has asked for nothing yet.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, pid: -1, epoch: -1, txn: 1, lines: map[record.TopicPartition]*line{}}
}

// State is where the producer stands.
func (m *Machine) State() State { return m.state }

// Counts is what it has done so far.
func (m *Machine) Counts() Counts { return m.counts }

// Idle says that no request and no batch is without an answer.
func (m *Machine) Idle() bool { return m.flying == 0 && !m.try.out }

func (m *Machine) begin(now time.Time) { m.now, m.effects = now, nil }

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) deliver(e broker.Event) { m.do(Deliver{e}) }

func (m *Machine) error(op broker.Op, code int16, s Situation, at record.TopicPartition, cause error) *broker.Error {
	err := m.cfg.Error(op, code, s)
	if code != 0 && int(err.Class) < len(m.counts.Errors) {
		m.counts.Errors[err.Class]++
	}
	err.Source = at
	if cause != nil {
		err.Cause = cause
	}
	return err
}

func (m *Machine) interval(n uint64) *interval {
	at, ok := slices.BinarySearchFunc(m.intervals, n, func(iv *interval, n uint64) int { return int(int64(iv.number) - int64(n)) })
	if !ok {
		m.intervals = slices.Insert(m.intervals, at, &interval{number: n, ends: map[record.TopicPartition]int64{}})
	}
	return m.intervals[at]
}

// prune forgets intervals before n of which nothing is left.
func (m *Machine) prune(n uint64) {
	m.intervals = slices.DeleteFunc(m.intervals, func(iv *interval) bool { return iv.number < n && iv.batches == 0 })
}

// over says that nothing is accepted until an Abort.
func (m *Machine) over() bool {
	return m.state == AbortableError || m.state == Fenced || m.state == Fatal
}

// Tick lets time pass. Start with it: a transactional id is initialised before anything is appended, since that also ends
// what a predecessor has left open.
func (m *Machine) Tick(now time.Time) []Effect {
	m.begin(now)
	m.expire()
	m.proceed()
	return m.effects
}

// Next is when Tick must be called again; zero if nothing waits for a time. What is due already and still there waits for an
// answer, not for the clock.
func (m *Machine) Next(now time.Time) (next time.Time) {
	sooner := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if !m.try.out && m.try.attempts > 0 {
		sooner(m.try.at)
	}
	if m.cfg.Transactional && m.state != InTransaction {
		return next
	}
	for _, l := range m.order {
		if l.added != m.txn {
			sooner(l.addAt)
		}
		b := l.resting()
		if b == nil {
			continue
		}
		sooner(b.retryAt)
		if !b.deadline.IsZero() && now.After(b.deadline) {
			return now
		}
		sooner(b.deadline.Add(time.Millisecond))
	}
	return next
}

// Touch announces records for a partition, so that it is added to the transaction while they are still being collected.
func (m *Machine) Touch(now time.Time, to record.TopicPartition, interval uint64) []Effect {
	m.begin(now)
	if m.cfg.Transactional && !m.over() && interval >= m.current {
		m.touch(m.line(to), interval)
		m.proceed()
	}
	return m.effects
}

func (m *Machine) touch(l *line, interval uint64) {
	if l.touched == interval+1 {
		return
	}
	l.touched = interval + 1
	if iv := m.interval(interval); !slices.Contains(iv.touched, l) {
		iv.touched = append(iv.touched, l)
	}
}

// Put hands a batch over. It comes back with Release.
func (m *Machine) Put(now time.Time, b *Batch) []Effect {
	m.begin(now)
	if m.over() && m.cfg.Transactional {
		m.do(Release{b})
		return m.effects
	}
	l := m.line(b.To)
	b.line = l
	l.insert(b)
	m.interval(b.Interval).batches++
	if m.cfg.Transactional && !(b.Interval == m.current && l.added == m.txn) {
		m.touch(l, b.Interval)
	}
	if !m.cfg.Transactional {
		b.deadline = now.Add(m.cfg.DeliveryTimeout)
	}
	m.proceed()
	return m.effects
}

// Flush asks to be told when all of an interval is written. Exactly one broker.Flushed with the token follows, unless an
// Abort comes first. An interval that was amended is flushed once more.
func (m *Machine) Flush(now time.Time, token, interval uint64) []Effect {
	m.begin(now)
	m.flushes = append(m.flushes, flush{token, interval})
	m.interval(interval).flushed = false
	m.expire()
	m.proceed()
	return m.effects
}

func (m *Machine) answerFlushes() {
	for len(m.flushes) > 0 {
		f := m.flushes[0]
		iv := m.interval(f.interval)
		err := iv.err
		switch {
		case m.over() && m.cfg.Transactional:
			if m.flying > 0 {
				return
			}
			err = m.err
		case m.cfg.Transactional && f.interval > m.current, iv.batches > 0:
			return
		}
		m.flushes = m.flushes[1:]
		m.deliver(broker.Flushed{Token: f.token, Ends: iv.ends, Refused: iv.refused, Err: err})
		if !m.cfg.Transactional && err == nil {
			m.strange = false
		}
		iv.flushed, iv.refused, iv.err, iv.ends = err == nil, nil, nil, map[record.TopicPartition]int64{}
		m.prune(f.interval)
	}
}

// proceed does what can be done next, after every event.
func (m *Machine) proceed() {
	for again := true; again; {
		was := m.state
		m.move()
		again = m.answerAborts() || was != m.state
	}
	m.answerFlushes()
}

// move takes the state's next step, unless a request is under way.
func (m *Machine) move() {
	if m.try.out {
		return
	}
	switch m.state {
	case Uninitialized:
		m.initialize()
	case Ready, InTransaction:
		m.goOn()
	case Committing, CommitUnknown:
		m.goOnCommitting()
	case Aborting:
		m.goOnAborting()
	case AbortableError, Fenced, Fatal: // only an Abort leads on
	}
}

// goOn is for the states in which records are written.
func (m *Machine) goOn() {
	switch {
	case !m.cfg.Transactional && m.bump && m.flying == 0:
		m.become(Uninitialized)
		m.takeBackUnsent()
	case m.cfg.Transactional:
		m.add()
		m.startCommit()
	}
}

// ask makes a request, or leaves it for later if its pause is not over.
func (m *Machine) ask(op broker.Op, e Effect) bool {
	if m.try.op != op {
		m.try = try{op: op, since: m.now}
	}
	if m.try.out || m.now.Before(m.try.at) {
		return false
	}
	m.try.out = true
	m.do(e)
	return true
}

// later makes the last request again after a pause: a few milliseconds while the coordinator writes markers, which takes 5
// to 40 ms on a real broker and delays the next transaction; the usual back-off otherwise.
func (m *Machine) later(code int16) {
	m.try.attempts++
	pause := m.cfg.Backoff(m.try.attempts)
	if code == concurrentTransactions {
		pause = time.Duration(min(m.try.attempts, 5)) * time.Millisecond
	}
	m.try.at = m.now.Add(pause)
}

const concurrentTransactions int16 = 51

// Answered is what came back for the request that is under way.
func (m *Machine) Answered(now time.Time, a Answer) []Effect {
	m.begin(now)
	if !m.try.out {
		return nil
	}
	m.try.out = false
	switch m.try.op {
	case broker.OpInitProducerID:
		m.initialized(a)
	case broker.OpAddPartitions:
		m.partitionsAdded(a)
	case broker.OpAddOffsets:
		m.offsetsAdded(a)
	case broker.OpTxnOffsetCommit:
		m.offsetsHeld(a)
	case broker.OpEndTxn:
		m.ended(a)
	case OpDescribe:
		m.described(a)
	}
	m.proceed()
	return m.effects
}

// fail loses the transaction: what waits in it is taken back now, what is in flight when it answers.
func (m *Machine) fail(err *broker.Error) {
	m.bump = m.bump || !harmless(err)
	m.suspect = m.suspect || err.Code == 47 || err.Code == 90
	m.err = err
	if !m.try.out {
		m.try = try{}
	}
	m.become(AbortableError)
	m.endCommit(err)
	m.takeBack(func(b *Batch) bool { return b.Interval == m.current })
	if len(m.aborts) > 0 {
		m.startAbort()
	}
}

// harmless says that a refusal leaves the coordinator's transaction and every sequence as they were: the group did not take
// the offsets, or a topic or group is not allowed.
func harmless(err *broker.Error) bool {
	return err.Class == broker.Migrated || err.Code == 29 || err.Code == 30
}

// fatal is for what not even an abort gets past.
func (m *Machine) fatal(err *broker.Error) {
	fatal := *err
	fatal.Class = broker.Fatal
	m.err, m.bump, m.try = &fatal, true, try{}
	m.become(Fatal)
	m.endCommit(&fatal)
	m.takeBack(func(*Batch) bool { return true })
}
