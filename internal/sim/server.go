package main

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
)

const (
	serverCount = 3
	// officeCount is how many transaction coordinators there are, each on some server.
	officeCount = 3
)

// Codes that brokers answer, by the names of the protocol.
const (
	codeLoading             int16 = 14
	codeNotCoordinator      int16 = 16
	codeNotLeader           int16 = 6
	codeIllegalGeneration   int16 = 22
	codeUnknownMember       int16 = 25
	codeRebalance           int16 = 27
	codeOutOfOrder          int16 = 45
	codeStaleEpoch          int16 = 47
	codeTransactionState    int16 = 48
	codeUnknownProducer     int16 = 49
	codeConcurrent          int16 = 51
	codeFencedInstance      int16 = 82
	codeUnstable            int16 = 88
	codeFenced              int16 = 90
	noAnswer                int16 = -2
	notSent                 int16 = -3
	networkLow                    = 200 * time.Microsecond
	networkHigh                   = 3 * time.Millisecond
	markerLow, markerHigh         = 5 * time.Millisecond, 40 * time.Millisecond
	loadingLow, loadingHigh       = 100 * time.Millisecond, 400 * time.Millisecond
	moveLow, moveHigh             = 8800 * time.Millisecond, 10800 * time.Millisecond
)

// server is a broker.
type server struct {
	world *world
	id    int
	up    bool
	boots int
}

// stop takes a broker down; whoever waits for it gets no answer. Leaderships and coordinators stay with it until it is
// back, or until the others have noticed.
func (s *server) stop() {
	if !s.up {
		return
	}
	s.world.say("broker %d down", s.id)
	s.up = false
	s.boots++
	for _, f := range slices.Clone(s.world.flights) {
		if f.to == s {
			f.cut()
		}
	}
}

func (s *server) start() {
	if s.up {
		return
	}
	s.world.say("broker %d up", s.id)
	s.up = true
	if s.world.group.on == s {
		s.world.group.load()
	}
	for _, o := range s.world.offices {
		if o.on == s {
			o.load()
		}
	}
}

// successors are brokers that can take over from one.
func (w *world) successors(of *server) (all []*server) {
	for _, s := range w.servers {
		if s != of && s.up {
			all = append(all, s)
		}
	}
	return all
}

// handOver gives everything that a dead broker had to others.
func (w *world) handOver(dead *server) {
	if dead.up {
		return
	}
	for _, l := range w.order {
		if l.leader == dead {
			l.move(pick(w, w.successors(dead)))
		}
	}
	for _, o := range w.offices {
		if o.on == dead {
			o.move(pick(w, w.successors(dead)))
		}
	}
	if w.group.on == dead {
		w.group.move(pick(w, w.successors(dead)))
	}
}

// flight is one request on its way, or waiting for its answer.
type flight struct {
	proc *process
	op   broker.Op
	to   *server
	// lost tells the process that there is no answer.
	lost     func(code int16)
	done     bool
	replying bool
	// ghost says that it is carried out although nobody waits for it any more.
	ghost bool
	fate  *fault
}

// link is a connection of one role to one broker: what is sent on it arrives in order.
type link struct {
	role string
	to   int
}

// request sends something to a broker. There serve carries it out, and calls its argument at once or later with what the
// process does about the answer. Exactly one of that and lost is called, unless the process is gone by then.
func (p *process) request(role string, op broker.Op, to *server, serve func(answer func(func())), lost func(code int16)) {
	w := p.world
	if p.dead || p.boundary(string(op), before) {
		return
	}
	w.tally.Requests++
	f := &flight{proc: p, op: op, to: to, lost: lost}
	if !to.up {
		w.say("%s: %s to broker %d: refused", p.name, op, to.id)
		w.after(time.Millisecond, func() { p.deliver(func() { lost(notSent) }) })
		return
	}
	w.flights = append(w.flights, f)
	f.fate = p.node.fate(op)
	l := link{role, to.id}
	arrival := max(p.links[l]+time.Microsecond, w.now+w.between(networkLow, networkHigh))
	switch f.kind() {
	case kindLost:
		w.after(w.between(50*time.Millisecond, 2*time.Second), f.cut)
		return
	case kindRace:
		if !f.fate.Behind { // it does not arrive
			w.after(w.between(2*time.Millisecond, 10*time.Millisecond), p.race)
			w.after(w.between(10*time.Millisecond, 500*time.Millisecond), f.cut)
			return
		}
		p.links[l] = arrival
	case kindLate:
		// It is carried out when nobody waits for it any more: another connection has been used meanwhile.
		w.after(w.between(20*time.Millisecond, 800*time.Millisecond), f.cut)
		f.ghost = true
		arrival = w.now + w.between(time.Second, 6*time.Second)
	case kindSlow:
		arrival += w.between(200*time.Millisecond, 4*time.Second)
		p.links[l] = arrival
	default:
		p.links[l] = arrival
	}
	boots := to.boots
	w.queue.put(arrival, func() { f.arrive(boots, serve) })
}

func (f *flight) kind() kind {
	if f.fate == nil {
		return 0
	}
	return f.fate.Kind
}

func (f *flight) arrive(boots int, serve func(answer func(func()))) {
	w := f.proc.world
	if !f.to.up || f.to.boots != boots {
		f.cut()
		return
	}
	if f.done {
		if !f.ghost {
			return
		}
		w.say("%s: %s arrives late", f.proc.name, f.op)
	}
	w.late = f.done
	serve(f.answer)
	w.late = false
	if f.proc.boundary(string(f.op), behind) {
		f.finish()
	}
}

// answer sends an answer back.
func (f *flight) answer(then func()) {
	w := f.proc.world
	if f.done || f.replying {
		return
	}
	f.replying = true
	if f.kind() == kindRace { // carried out; when its markers are written, the next epoch begins without its sender
		w.after(markerHigh+w.between(time.Millisecond, 10*time.Millisecond), f.proc.race)
		w.after(w.between(markerHigh+20*time.Millisecond, 500*time.Millisecond), f.cut)
		return
	}
	if f.kind() == kindReplyLost {
		w.after(w.between(20*time.Millisecond, 800*time.Millisecond), f.cut)
		return
	}
	w.after(w.between(networkLow, networkHigh), func() {
		if f.done {
			return
		}
		f.finish()
		f.proc.deliver(then)
	})
}

func (f *flight) finish() {
	f.done = true
	f.proc.world.flights = slices.DeleteFunc(f.proc.world.flights, func(o *flight) bool { return o == f })
}

// cut ends the connection: there is no answer, whatever has become of the request.
func (f *flight) cut() {
	if f.done {
		return
	}
	f.finish()
	f.proc.world.say("%s: %s: no answer", f.proc.name, f.op)
	f.proc.deliver(func() { f.lost(noAnswer) })
}
