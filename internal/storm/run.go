package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/kafka"
)

// members is how many nodes there are.
const members = 3

// run is one run. Its methods are for one goroutine.
type run struct {
	settings
	dir     string
	out     io.Writer
	began   time.Time
	cluster *realkafka.Cluster
	nodes   []*member
	history *history
	feeder  *feeder
	pulse   *pulse
	askers  []*asker
	faults  []time.Duration
	tally   tally
}

// storm runs a run and gives the exit code.
func storm(ctx context.Context, s settings) int {
	if err := realkafka.Available(); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "millrace-storm-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		return 1
	}
	r := &run{settings: s, dir: dir, out: os.Stderr, began: time.Now(), history: &history{}, pulse: &pulse{}}
	err = r.whole(ctx)
	bad := r.conclude(err)
	r.close(bad)
	if bad {
		return 1
	}
	return 0
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%7.1fs %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r *run) whole(ctx context.Context) (err error) {
	r.say("%d clients for %s, seed %d; logs in %s", r.clients, r.duration, r.seed, r.dir)
	if r.cluster, err = realkafka.Start(ctx, r.brokers); err != nil {
		return err
	}
	brokers := r.cluster.Brokers()
	if err := createTopic(ctx, brokers); err != nil {
		return err
	}
	for i := range members {
		m, err := startMember(i+1, r.dir, brokers, r.clients)
		if m != nil {
			r.nodes = append(r.nodes, m)
		}
		if err != nil {
			return err
		}
	}
	r.feeder = newFeeder(brokers, r.settings, r.history)
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	r.feeder.start(feeding)
	defer func() { stop(); r.feeder.stop() }()
	if err := r.await(ctx); err != nil {
		return err
	}
	r.say("three nodes run and share the partitions")
	return r.ask(ctx)
}

func createTopic(ctx context.Context, brokers []string) error {
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: brokers})
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return admin.CreateTopics(ctx, []kafka.TopicSpec{{Name: inputTopic, Partitions: partitions, Replication: -1}})
}

// startLimit is how long the nodes may take to share the partitions.
const startLimit = 3 * time.Minute

// await waits until every node is RUNNING and has its share.
func (r *run) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		missing := r.missing(ctx)
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("hung for %s: %w", startLimit, missing)
		case <-ticker.C:
		}
		if err := r.broken(); err != nil {
			return err
		}
	}
}

func (r *run) missing(ctx context.Context) error {
	for _, m := range r.nodes {
		s, err := m.status(ctx)
		if err != nil {
			return err
		}
		if s.State != "RUNNING" || s.Tasks != partitions/members {
			return fmt.Errorf("%s is %s with %d tasks", m.name, s.State, s.Tasks)
		}
	}
	return nil
}

// broken is what ends a run before its time.
func (r *run) broken() error {
	for _, m := range r.nodes {
		if err := m.alive(); err != nil {
			return err
		}
	}
	select {
	case err := <-r.feeder.failed:
		return err
	default:
		return nil
	}
}

// ask is the storm itself.
func (r *run) ask(ctx context.Context) error {
	for i := range r.clients {
		a, err := newAsker(ctx, i, r.nodes, r.settings, r.history, r.pulse)
		if err != nil {
			return err
		}
		defer a.end()
		r.askers = append(r.askers, a)
	}
	asking, stop := context.WithTimeout(ctx, r.duration)
	defer stop()
	origin := time.Now()
	var done sync.WaitGroup
	done.Go(func() { r.pulse.run(asking) })
	for _, a := range r.askers {
		a.checker.origin = origin
		done.Go(func() { a.run(asking) })
	}
	err := r.strike(asking, origin)
	if err != nil {
		stop()
	}
	done.Wait()
	for _, a := range r.askers {
		r.tally.add(&a.checker.tally)
	}
	return errors.Join(err, ctx.Err(), r.broken())
}

// schedule is when rebalances are forced and when a node is killed. A run that is too short for calm after the kill spends
// three fifths of itself there, so that another node has the time to take the partitions over.
func (s settings) schedule() (rebalances []time.Duration, kill time.Duration) {
	kill = s.duration - min(3*s.duration/5, shadow+2*time.Second+10*s.deadline)
	for at := s.every; at < kill-time.Second; at += s.every {
		rebalances = append(rebalances, at)
	}
	return rebalances, kill
}

// strike carries the schedule out, until the storm ends.
func (r *run) strike(ctx context.Context, origin time.Time) error {
	random := rand.New(rand.NewPCG(r.seed, 0))
	rebalances, kill := r.schedule()
	for _, at := range rebalances {
		if !r.until(ctx, origin.Add(at)) {
			return r.broken()
		}
		m := r.nodes[random.IntN(members)]
		began := r.mark(origin)
		if err := m.rebalance(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		r.say("%s took a thread away and added one in %s", m.name, (r.mark(origin) - began).Round(time.Millisecond))
	}
	if r.until(ctx, origin.Add(kill)) {
		m := r.nodes[random.IntN(members)]
		r.mark(origin)
		m.kill()
		r.say("%s was killed", m.name)
		<-ctx.Done()
	}
	return r.broken()
}

// mark notes that a fault begins or ends now.
func (r *run) mark(origin time.Time) time.Duration {
	at := time.Since(origin)
	r.faults = append(r.faults, at)
	return at
}

// until waits for a time; false if the storm ends before.
func (r *run) until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.broken() == nil
	case <-ctx.Done():
		return false
	}
}

// conclude prints what there is to say; true if anything is wrong.
func (r *run) conclude(err error) bool {
	for _, n := range r.tally.notes {
		r.say("%s", n)
	}
	calm := r.tally.calm(r.faults, r.deadline)
	r.say("%.0f questions per second; outside the shadow of faults: %d questions, %d values, %d Overloaded, %d DeadlineExceeded",
		float64(r.tally.queries)/r.duration.Seconds(), calm.queries, calm.values, calm.overloaded, calm.exceeded)
	var complaints []string
	if err == nil {
		complaints = r.tally.complaints(r.faults, r.deadline, r.duration, r.least)
	} else {
		complaints = append(complaints, err.Error())
	}
	for _, c := range complaints {
		r.say("WRONG: %s", c)
	}
	fmt.Println(&r.tally)
	return len(complaints) > 0
}

// close ends whatever still runs, by its own ids, and removes the logs if there is nothing to find in them.
func (r *run) close(bad bool) {
	for _, m := range r.nodes {
		m.kill()
		if bad {
			r.say("%s said last: …%s", m.name, m.tail(2000))
		}
	}
	if r.cluster != nil {
		if err := r.cluster.Wipe(); err != nil {
			r.say("the brokers' data is still there: %v", err)
		}
	}
	if !bad && !r.keep {
		os.RemoveAll(r.dir) // it is in the directory for temporary files
	}
}
