package millrace

import (
	"strings"

	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// put takes a value and those of the row's labels.
type put func(v float64, labels ...string)

// metricRow is one line of docs/metrics.md.
type metricRow struct {
	// name and unit are OpenTelemetry's; unit s is a float.
	name, unit string
	// counter: it only grows. Else it goes up and down.
	counter bool
	// labels come after app, which all rows have.
	labels []string
	help   string
	// streams is the counterpart of Kafka Streams, empty if there is none.
	streams string
	read    func(*scrape, put)
}

// exposed is the name in Prometheus' text form.
func (r *metricRow) exposed() string {
	name := strings.ReplaceAll(r.name, ".", "_") + map[string]string{"s": "_seconds", "By": "_bytes"}[r.unit]
	if r.counter {
		name += "_total"
	}
	return name
}

// instrument makes the row's instrument.
func (r *metricRow) instrument(m metric.Meter) (metric.Observable, error) {
	unit, help := metric.WithUnit(r.unit), metric.WithDescription(r.help)
	switch {
	case r.unit == "s" && r.counter:
		return m.Float64ObservableCounter(r.name, unit, help)
	case r.unit == "s":
		return m.Float64ObservableGauge(r.name, unit, help)
	case r.counter:
		return m.Int64ObservableCounter(r.name, unit, help)
	}
	return m.Int64ObservableGauge(r.name, unit, help)
}

// Labels that more than one row has.
var (
	byThread = []string{"thread"}
	byTask   = []string{"task"}
	byStore  = []string{"store", "task"}
	byAsked  = []string{"store"}
)

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func perThread(f func(*threadFigures) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i := range s.threads {
			put(f(&s.threads[i]), s.threads[i].Name)
		}
	}
}

// perStream is perThread for those that process.
func perStream(f func(*threadFigures) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i := range s.threads {
			if t := &s.threads[i]; t.stream {
				put(f(t), t.Name)
			}
		}
	}
}

// perStreamBy has one more label, which has the names.
func perStreamBy(names []string, f func(t *threadFigures, i int) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i, name := range names {
			perStream(func(t *threadFigures) float64 { return f(t, i) })(s, func(v float64, labels ...string) { put(v, labels[0], name) })
		}
	}
}

func perTask(f func(*taskFigures) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i := range s.tasks {
			put(f(&s.tasks[i]), s.tasks[i].id)
		}
	}
}

func perStore(f func(*storeFigures) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i := range s.stores {
			put(f(&s.stores[i]), s.stores[i].store, s.stores[i].task)
		}
	}
}

func perAsked(f func(*questionFigures) float64) func(*scrape, put) {
	return func(s *scrape, put put) {
		for i := range s.questions {
			put(f(&s.questions[i]), s.questions[i].store)
		}
	}
}

// metricRows is everything that is measured; docs/metrics.md is rendered from it.
var metricRows = []metricRow{
	{"millrace.node.state", "", false, []string{"state"}, "1 for the state that the node is in, 0 for the others", "client: client-state", readNodeState},
	{"millrace.node.tasks", "{task}", false, nil, "Tasks that run on this node", "thread: task-created-total less task-closed-total",
		func(s *scrape, put put) { put(float64(len(s.tasks))) }},
	{"millrace.transitions", "{transition}", true, []string{"kind", "state"}, "How often a node, thread, task or store has entered a state", "", readMoves},

	{"millrace.thread.state", "", false, []string{"thread", "state"}, "1 for the state that the thread is in, 0 for the others", "thread: thread-state", readThreadStates},
	{"millrace.thread.stuck", "", false, byThread, "1 while the loop has not stepped for WithStuckAfter", "",
		perThread(func(t *threadFigures) float64 { return truth(t.Stuck) })},
	{"millrace.thread.restarts", "{restart}", true, byThread, "Incarnations after the first", "",
		perThread(func(t *threadFigures) float64 { return float64(t.restarts) })},
	{"millrace.thread.failures", "{failure}", true, []string{"thread", "kind"}, "Failures that supervision was told of", "client: failed-stream-threads", readFailures},
	{"millrace.thread.steps", "{step}", true, byThread, "Steps of the loop: each takes in events, processes a bounded number of records and moves the commit on", "thread: poll-total",
		perStream(func(t *threadFigures) float64 { return float64(t.Steps) })},
	{"millrace.thread.busy", "s", true, byThread, "Time in steps; the rest is waiting", "thread: 1 less poll-ratio",
		perStream(func(t *threadFigures) float64 { return t.Busy.Seconds() })},
	{"millrace.thread.blocked", "s", true, byThread, "Time without processing because a commit or the producer had to catch up", "thread: blocked-time-ns-total",
		perStream(func(t *threadFigures) float64 { return t.blocked.Seconds() })},
	{"millrace.thread.fetches", "{fetch}", true, byThread, "Answers to fetches that were taken in", "consumer: fetch-total",
		perStream(func(t *threadFigures) float64 { return float64(t.Fetches) })},
	{"millrace.thread.fetched", "{record}", true, byThread, "Records in them", "consumer: records-consumed-total",
		perStream(func(t *threadFigures) float64 { return float64(t.Fetched) })},
	{"millrace.thread.processes", "{step}", true, byThread, "Steps that took records through processors", "thread: process-total",
		perStream(func(t *threadFigures) float64 { return float64(t.Processes) })},
	{"millrace.thread.records", "{record}", true, byThread, "Records that were taken through processors; those of an interval that was taken back count again", "thread: process-records-avg",
		perStream(func(t *threadFigures) float64 { return float64(t.Records) })},
	{"millrace.thread.punctuations", "{punctuation}", true, byThread, "Calls of scheduled functions", "thread: punctuate-total",
		perStream(func(t *threadFigures) float64 { return float64(t.Punctuations) })},
	{"millrace.thread.commits", "{commit}", true, []string{"thread", "outcome"}, "Commits by their end: Committed, or the class of the error", "thread: commit-total",
		perStreamBy(thread.Outcomes, func(t *threadFigures, i int) float64 { return float64(t.Commits[i]) })},
	{"millrace.thread.transactions", "{transaction}", true, []string{"thread", "outcome"}, "Transactions by their end; unknown are those of which the coordinator could not tell, and that were found out. 0 at least once", "",
		perStreamBy([]string{"committed", "aborted", "unknown"}, transactionsOf)},

	{"millrace.producer.created", "{producer}", true, nil, "Producers that were made: one for each thread, and one more when a stuck thread is replaced", "",
		func(s *scrape, put put) { put(float64(s.producers)) }},
	{"millrace.producer.reinits", "{initialisation}", true, byThread, "Times a producer has initialised its transactional id again (KIP-691)", "",
		perStream(func(t *threadFigures) float64 { return float64(t.transactions.Reinits) })},
	{"millrace.producer.fenced", "{fence}", true, byThread, "Times another producer has taken the transactional id over", "",
		perStream(func(t *threadFigures) float64 { return float64(t.transactions.Fenced) })},
	{"millrace.producer.errors", "{error}", true, []string{"thread", "class"}, "Error codes and requests without an answer, by class", "producer: record-error-total",
		perStreamBy(thread.Outcomes[broker.Retry:], func(t *threadFigures, i int) float64 { return float64(t.errors[broker.Class(i)+broker.Retry]) })},
	{"millrace.producer.buffered", "By", false, byThread, "Appended and not acknowledged", "producer: buffer-total-bytes less buffer-available-bytes",
		perStream(func(t *threadFigures) float64 { return float64(t.buffered) })},

	{"millrace.task.records", "{record}", true, byTask, "Records that were taken through processors, skipped ones too", "task: process-total",
		perTask(func(t *taskFigures) float64 { return float64(t.Records) })},
	{"millrace.task.lag", "{offset}", false, byTask, "Offsets of the sources that are not processed, by the ends that the last fetches told", "consumer: records-lag",
		perTask(func(t *taskFigures) float64 { return float64(t.Lag) })},
	{"millrace.task.buffered", "By", false, byTask, "Fetched and not processed", "task: active-buffer-count",
		perTask(func(t *taskFigures) float64 { return float64(t.Buffered) })},
	{"millrace.task.dropped", "{record}", true, []string{"task", "reason"}, "Records that were left out on purpose, late ones too", "task: dropped-records-total", readDrops},
	{"millrace.task.responses", "{response}", true, []string{"task", "stage", "response"}, "Answers of handlers about records that failed", "task: dropped-records-total", readAnswers},
	{"millrace.task.quarantined", "", false, byTask, "1 while the task keeps failing at one record", "",
		perTask(func(t *taskFigures) float64 { return truth(t.quarantined) })},

	{"millrace.store.gets", "{get}", true, byStore, "Keys that were looked for in the engine, by tasks and questions; values that the task has at hand are not", "store: get-rate",
		perStore(func(s *storeFigures) float64 { return float64(s.gets) })},
	{"millrace.store.puts", "{put}", true, byStore, "Keys that commits have written, each once for a commit", "store: put-rate",
		perStore(func(s *storeFigures) float64 { return float64(s.puts) })},
	{"millrace.store.scans", "{scan}", true, byStore, "Ranges that were read", "store: range-rate, all-rate",
		perStore(func(s *storeFigures) float64 { return float64(s.scans) })},
	{"millrace.store.written", "By", true, byStore, "Bytes of keys and values of puts", "store: bytes-written-total",
		perStore(func(s *storeFigures) float64 { return float64(s.bytes) })},
	{"millrace.store.disk", "By", false, byStore, "Size on disk, looked at every 10 s; 0 for a store in memory and until the first flush", "store: total-sst-files-size",
		perStore(func(s *storeFigures) float64 { return float64(s.disk) })},
	{"millrace.store.disk.full", "", false, byStore, "1 while the store waits for space on its disk", "",
		perStore(func(s *storeFigures) float64 { return truth(s.full) })},

	{"millrace.restore.remaining", "{offset}", false, byStore, "Changelog offsets that are left while the store is restored", "task: restore-remaining-records-total",
		perStore(func(s *storeFigures) float64 { return float64(s.remaining) })},
	{"millrace.restore.records", "{record}", true, byStore, "Records that finished restores have read", "task: restore-total",
		perStore(func(s *storeFigures) float64 { return float64(s.restored) })},
	{"millrace.restore.ends", "{restore}", true, []string{"store", "task", "outcome"}, "Restores by their end: done, failed or cancelled", "", readRestores},
	{"millrace.restore.duration", "s", true, byStore, "Time of restores, counted for the first store of a task", "state-updater: active-restore-ratio",
		perStore(func(s *storeFigures) float64 { return s.restoring.Seconds() })},
	{"millrace.restore.discarded", "{copy}", true, byStore, "Local copies that could not be used", "",
		perStore(func(s *storeFigures) float64 { return float64(s.discarded) })},

	{"millrace.global.records", "{record}", true, byAsked, "Records of the topic that were read, skipped ones too", "",
		func(s *scrape, put put) {
			for _, g := range s.globals {
				put(float64(g.Records), g.Store)
			}
		}},
	{"millrace.global.skipped", "{record}", true, []string{"store", "reason"}, "Records of it that were left out", "task: dropped-records-total", readSkips},

	{"millrace.query.answers", "{answer}", true, byAsked, "Questions that were answered with a value", "",
		perAsked(func(q *questionFigures) float64 { return float64(q.Answers()) })},
	{"millrace.query.failures", "{failure}", true, []string{"store", "kind"}, "Questions that were answered with a failure; Overloaded is among the kinds. The store is empty for those that the topology does not have", "", readQueryFailures},
	{"millrace.query.waiting", "{question}", false, byAsked, "Questions that wait for a store now", "",
		perAsked(func(q *questionFigures) float64 { return float64(q.waiting) })},
	{"millrace.query.dropped", "{question}", true, nil, "Questions without a sender, and answers to askers that had gone", "",
		func(s *scrape, put put) { put(float64(s.dropped)) }},
	{"millrace.query.refusals", "{refusal}", true, []string{"reason"}, "What was not let in at the address for other processes", "",
		func(s *scrape, put put) {
			for reason, n := range s.refusals {
				put(float64(n), reason)
			}
		}},
}

func readNodeState(s *scrape, put put) {
	for _, state := range kindsOfStates[0].states {
		put(truth(state == s.state.String()), state)
	}
}

func readThreadStates(s *scrape, put put) {
	for _, t := range s.threads {
		for _, state := range kindsOfStates[1].states {
			put(truth(state == t.State.String()), t.Name, state)
		}
	}
}

func readMoves(s *scrape, put put) {
	for _, k := range kindsOfStates {
		for _, state := range k.states {
			put(float64(s.moves[entered{k.kind, state}]), k.kind, state)
		}
	}
}

func readFailures(s *scrape, put put) {
	for _, t := range s.threads {
		for _, k := range failureKinds {
			put(float64(t.failures[k.name]), t.Name, k.name)
		}
	}
}

func transactionsOf(t *threadFigures, outcome int) float64 {
	c := t.transactions
	return float64([]uint64{c.Committed, c.Aborted, c.CommitUnknown}[outcome])
}

func readDrops(s *scrape, put put) {
	for _, t := range s.tasks {
		for i, reason := range thread.Drops {
			put(float64(t.Dropped[i]), t.id, reason)
		}
	}
}

func readAnswers(s *scrape, put put) {
	for _, t := range s.tasks {
		for stage := range t.Answers {
			for response, n := range t.Answers[stage] {
				put(float64(n), t.id, topology.Stage(stage).String(), topology.Response(response).String())
			}
		}
	}
}

func readRestores(s *scrape, put put) {
	for _, st := range s.stores {
		for _, outcome := range []string{restoreDone, restoreFailed, restoreCancelled} {
			put(float64(st.restores[outcome]), st.store, st.task, outcome)
		}
	}
}

func readSkips(s *scrape, put put) {
	for _, g := range s.globals {
		for _, reason := range skips {
			put(float64(g.Skipped[reason]), g.Store, reason)
		}
	}
}

func readQueryFailures(s *scrape, put put) {
	for i := range s.questions {
		for _, k := range query.Kinds() {
			put(float64(s.questions[i].Failures(k)), s.questions[i].store, k.String())
		}
	}
}
