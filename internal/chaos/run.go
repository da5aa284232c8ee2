package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/internal/realkafka"
)

// run is one run. Its methods are for one goroutine; feeder and observer have their own.
type run struct {
	settings
	dir      string
	out      io.Writer
	began    time.Time
	cluster  *realkafka.Cluster
	nodes    []*node
	client   *wire.Client
	feeder   *feeder
	observer *observer
	totals   totals
	// abortMarkers is the number of aborted transactions that the logs show.
	abortMarkers int
	// hits is how often a node was stopped between AddOffsets and EndTxn.
	hits int
	// roll is there if the nodes are restarted in turn and asked.
	roll *roll
}

// chaos runs a run and gives the exit code.
func chaos(ctx context.Context, s settings) int {
	if err := realkafka.Available(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "millrace-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	r := &run{settings: s, dir: dir, out: os.Stderr, began: time.Now()}
	if s.rolling {
		r.roll = &roll{}
	}
	violations, err := r.whole(ctx)
	r.show(violations)
	if err != nil {
		r.say("seed %d: %v", s.seed, err)
		r.lastWords()
	}
	r.close()
	if ctx.Err() != nil {
		r.file = "" // a run that was called off proves nothing, either way
	}
	return r.conclude(violations, err)
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%7.1fs %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// stormFaults are the faults of a storm.
const stormFaults = 3

// showRule is how many violations of one rule are shown in full.
const showRule = 20

func (r *run) show(violations []oracle.Violation) {
	all := map[oracle.Rule]int{}
	for _, v := range violations {
		if all[v.Rule]++; all[v.Rule] <= showRule {
			r.say("%s (seed %d)", v, r.seed)
		}
	}
	for rule, n := range all {
		r.say("%d violations of rule %s", n, rule)
	}
}

// whole is a run from the first broker to the verdict.
func (r *run) whole(ctx context.Context) ([]oracle.Violation, error) {
	r.say("seed %d, %d cycles, %s; logs in %s", r.seed, r.cycles, r.guarantee, r.dir)
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if err := r.faultsInTurn(ctx); err != nil {
		return nil, err
	}
	w, err := r.gather(ctx)
	if err != nil {
		return nil, err
	}
	violations := oracle.Check(w)
	if r.roll != nil {
		r.roll.judge(w, violations)
	}
	return violations, nil
}

// faultsInTurn does what the run is for.
func (r *run) faultsInTurn(ctx context.Context) error {
	if r.roll != nil {
		return r.restartInTurn(ctx)
	}
	for i, f := range schedule(r.seed, r.cycles, r.faults...) {
		began := time.Now()
		r.say("cycle %d of %d: %s", i+1, r.cycles, f)
		if err := r.cycle(ctx, f, !r.storm || (i+1)%stormFaults == 0 || i+1 == r.cycles); err != nil {
			return fmt.Errorf("cycle %d (%s): %w", i+1, f, err)
		}
		r.totals.Cycles++
		r.say("cycle %d of %d took %.1fs; %d inputs", i+1, r.cycles, time.Since(began).Seconds(), r.feeder.fed.Load())
	}
	return nil
}

func (r *run) start(ctx context.Context) (err error) {
	if r.cluster, err = realkafka.Start(ctx, r.brokers); err != nil {
		return err
	}
	brokers := r.cluster.Brokers()
	r.client = wire.New(brokers)
	r.feeder, r.observer = newFeeder(brokers, r.seed, r.rate), newObserver(brokers)
	if err := r.createTopics(brokers); err != nil {
		return err
	}
	ready := func(context.Context) error {
		return r.client.InSync(r.brokers, linesTopic, amountsTopic, countsTopic, sumsTopic)
	}
	if err := r.await(ctx, "the topics and their replicas", inSyncLimit, ready); err != nil {
		return err
	}
	addresses, err := r.addresses()
	if err != nil {
		return err
	}
	for i := range members {
		n := newNode(i+1, r.dir, join(brokers), r.settings)
		n.remote = addresses[i]
		r.nodes = append(r.nodes, n)
		if err := n.start(); err != nil {
			return err
		}
	}
	if err := r.await(ctx, "three running nodes that share the tasks", startLimit, r.running); err != nil {
		return err
	}
	r.feeder.start(ctx)
	r.observer.start(ctx)
	return r.await(ctx, "the first inputs to be committed", advanceLimit, r.passed())
}

func (r *run) createTopics(brokers []string) error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.MaxVersion
	admin, err := sarama.NewClusterAdmin(brokers, cfg)
	if err != nil {
		return fmt.Errorf("no connection to the brokers: %w", err)
	}
	defer admin.Close()
	for _, j := range jobs {
		for _, topic := range []string{j.input, j.output} {
			err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: int16(r.brokers)}, false)
			if err != nil {
				return fmt.Errorf("topic %s: %w", topic, err)
			}
		}
	}
	return nil
}

// close ends whatever still runs. Brokers and nodes are ended by their own ids.
func (r *run) close() {
	for _, n := range r.nodes {
		n.kill()
	}
	if r.cluster != nil {
		if err := r.cluster.Wipe(); err != nil {
			r.say("the brokers' data is still there: %v", err)
		}
	}
	if r.client != nil {
		r.client.Close()
	}
}

const tailBytes = 3000

// lastWords shows what the nodes last said and where the group is, and keeps what may explain it.
func (r *run) lastWords() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, n := range r.nodes {
		if s, err := n.status(ctx); err != nil {
			r.say("%s: %v", n.name(), err)
		} else {
			r.say("%s: %+v", n.name(), s)
			if err := n.ask(ctx, "GET", "/goroutines", nil); err != nil {
				r.say("%s: its goroutines are not known: %v", n.name(), err)
			}
		}
		fmt.Fprintf(r.out, "the end of the log of %s:\n%s\n", n.name(), n.tail(tailBytes))
	}
	if r.client == nil {
		return
	}
	if offsets, err := r.offsets(ctx); err != nil {
		r.say("%v", err)
	} else {
		r.say("offsets, and -1 where a transaction is open: %+v", offsets)
	}
	for _, t := range r.client.OpenTransactions() {
		r.say("%s", t)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "brokers"), []byte(r.cluster.Logs()), 0o600); err != nil {
		r.say("the brokers' logs are lost: %v", err)
	}
}

// errVacuous is the end of a run whose faults hit nothing.
var errVacuous = errors.New("no fault hit an open transaction: nothing was tried; use more cycles or a higher rate")

// conclude prints the line, adds up the totals, and gives the exit code.
func (r *run) conclude(violations []oracle.Violation, err error) int {
	r.count()
	r.say("%d transactions committed; the outputs and changelogs hold abort markers of %d; %d threads restarted; %d producers made; %d commits stopped in the middle",
		r.totals.Committed, r.abortMarkers, r.totals.ThreadRestarts, r.totals.Producers, r.hits)
	r.totals.Violations = len(violations)
	if r.roll != nil {
		return r.concludeRolling(violations, err)
	}
	if err == nil && r.guarantee == millrace.ExactlyOnce && r.totals.Aborted+r.totals.Fenced+uint64(r.abortMarkers) == 0 {
		err = errVacuous
		r.say("%v", err)
	}
	if err != nil {
		r.totals.Failed = 1
	}
	fmt.Println(r.totals)
	if r.file != "" {
		if err := r.totals.addTo(r.file); err != nil {
			r.say("the totals were not added up: %v", err)
			return 1
		}
	}
	return r.tidy(err != nil || len(violations) > 0)
}

// tidy removes what nobody needs any more, and gives the exit code.
func (r *run) tidy(failed bool) int {
	if failed || r.keep {
		r.say("logs and state directories are in %s", r.dir)
	} else if err := os.RemoveAll(r.dir); err != nil {
		r.say("%s is still there: %v", r.dir, err)
	}
	if failed {
		return 1
	}
	return 0
}
