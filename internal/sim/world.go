package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-io/millrace/record"
)

// world is one run of a scenario.
type world struct {
	plan  *scenario
	rng   *rand.Rand
	now   time.Duration
	queue queue
	// transcript gets a line for everything that happens; nil if nobody reads it.
	transcript io.Writer

	servers []*server
	flights []*flight
	logs    map[record.TopicPartition]*partition
	order   []*partition
	group   *group
	offices []*office
	nodes   []*node
	clients []*client
	crowds  []*crowd
	truth   *truth
	tally   tally
	// lives numbers processes, and with them whatever a process needs a name for.
	lives int
	// late says that the request that is being carried out is one that nobody waits for any more.
	late bool
	// calm says that no fault is to come.
	calm bool
	// armed are the faults whose time has come and whose moment has not.
	armed []*fault
}

// epochStart is the time of the virtual clocks at the beginning.
var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// violation is what a run ends with when the truth was hurt.
type violation struct{ text string }

// fail ends the run.
func (w *world) fail(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

// say writes a line of the transcript.
func (w *world) say(format string, args ...any) {
	if w.transcript != nil {
		fmt.Fprintf(w.transcript, "%12.6f %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

// after has something happen later.
func (w *world) after(d time.Duration, do func()) { w.queue.put(w.now+max(d, 0), do) }

// between draws a duration.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *world, all []T) T { return all[w.rng.IntN(len(all))] }

// newWorld builds the cluster of a scenario; nothing has happened yet.
func newWorld(s *scenario, transcript io.Writer) *world {
	w := &world{plan: s, rng: rand.New(rand.NewPCG(s.Seed, 0x6d696c6c)), transcript: transcript, tally: newTally(), logs: map[record.TopicPartition]*partition{}}
	for i := range serverCount {
		w.servers = append(w.servers, &server{world: w, id: i + 1, up: true})
	}
	w.truth = newTruth(w)
	for _, topic := range topics {
		for p := range int32(s.Partitions) {
			w.addPartition(record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	w.group = newGroup(w)
	for range officeCount {
		w.offices = append(w.offices, &office{world: w, on: pick(w, w.servers), ids: map[string]*identity{}})
	}
	for i := range s.Nodes {
		n := newNode(w, i+1)
		w.nodes = append(w.nodes, n)
		w.after(w.between(0, 300*time.Millisecond), n.boot)
	}
	w.feed()
	w.startClients()
	for i := range s.Faults {
		f := s.Faults[i]
		w.after(f.At, func() { w.begin(&f) })
	}
	return w
}

func (w *world) addPartition(tp record.TopicPartition) {
	l := &partition{world: w, tp: tp, leader: pick(w, w.servers), open: map[int64]*openTransaction{}, producers: map[int64]*sequences{}}
	w.logs[tp] = l
	w.order = append(w.order, l)
}

// patience is how long everything may take after the last fault: a broker that dies costs its clients 11 s, a member that
// has died its group 10 s, and a transaction of nobody's 30 s.
const patience = 180 * time.Second

// run lets the scenario happen, and returns what was hurt.
func (w *world) run() (v *violation) {
	defer w.close()
	defer func() {
		if r := recover(); r != nil {
			if hurt, ok := r.(violation); ok {
				v = &hurt
				w.say("VIOLATION: %s", hurt.text)
				return
			}
			v = panicked(r)
			w.say("VIOLATION: %s", v.text)
		}
	}()
	w.until(w.plan.faultsEnd())
	w.becomeCalm()
	over := w.now + patience
	for w.now < over {
		w.until(w.now + 500*time.Millisecond)
		if w.truth.reached() {
			w.truth.settle()
			return nil
		}
	}
	w.fail("%v after the last fault not everything is processed: %s", patience, w.truth.missing())
	return nil
}

// until lets events happen up to a time.
func (w *world) until(end time.Duration) {
	for len(w.queue.events) > 0 && w.queue.events[0].at <= end {
		e, _ := w.queue.take()
		w.now = e.at
		w.tally.Events++
		e.do()
	}
	w.now = end
}

// becomeCalm ends the faults that have not fired, and starts what is down.
func (w *world) becomeCalm() {
	w.say("calm")
	w.calm, w.armed = true, nil
	for _, s := range w.servers {
		s.start()
	}
	for _, n := range w.nodes {
		n.awake()
		n.user, n.disk.broken, n.disk.slow = nil, nil, nil
		if !n.present && !n.leaving {
			n.boot()
		}
	}
}

func (w *world) close() {
	for _, n := range w.nodes {
		if n.proc != nil {
			n.proc.bury()
		}
	}
	w.tally.Virtual = w.now
}

// present are the nodes whose process is there.
func (w *world) present() (all []*node) {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !n.present })
}
