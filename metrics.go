package millrace

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// WithMeterProvider measures the node with OpenTelemetry's interface, from New to the end of Run: docs/metrics.md lists what.
// If the provider is an http.Handler too, as an exposition.Exposition is, Handler serves it at /metrics. Without a provider,
// or with nil, nothing is counted.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// scopeName is the instrumentation scope of all metrics.
const scopeName = "github.com/millrace-io/millrace"

// meters is what a node counts for its metrics; nil if nobody wants them. Most figures are there anyhow, and are read when
// somebody looks; the rest is counted by those who do the work, once for each batch, commit, question or failure.
//
// The mutex protects the maps: threads, keepers and supervision look their counters up, and a scrape reads all.
type meters struct {
	node *Node
	// questions are by store, and do not change.
	questions    map[string]*router.Counts
	registration metric.Registration
	// histograms are by the rows' names. They are made before anything begins that is measured.
	histograms map[string]metric.Float64Histogram

	mu      sync.Mutex
	threads map[string]*threadMeter
	tasks   map[record.TaskID]*thread.TaskWork
	stores  map[storePartition]*storeMeter
}

// threadMeter is of a thread's name, whoever bore it. The mutex of meters protects all but work.
type threadMeter struct {
	work     *thread.Work
	failures map[string]int64
	// retired and blocked are of slots that the thread had before.
	retired TransactionCounts
	errors  [broker.Ignore + 1]uint64
	blocked time.Duration
}

// storePartition names a store of a task; that of a global store is "global".
type storePartition struct{ store, task string }

const globalTask = "global"

// storeMeter is of a store partition, however often it is opened. The mutex of meters protects all but counts.
type storeMeter struct {
	counts store.Counts
	// restores are by outcome.
	restores            map[string]int64
	restored, discarded int64
	restoring           time.Duration
	disk                int64
}

// Outcomes of a restore.
const (
	restoreDone      = "done"
	restoreFailed    = "failed"
	restoreCancelled = "cancelled"
)

// newMeters is nil if nobody wants them.
func newMeters(n *Node) *meters {
	if n.opts.meters == nil {
		return nil
	}
	m := &meters{node: n, questions: map[string]*router.Counts{"": {}}, threads: map[string]*threadMeter{},
		tasks: map[record.TaskID]*thread.TaskWork{}, stores: map[storePartition]*storeMeter{}}
	for _, s := range storeInfos(n.topology) {
		m.questions[s.Name] = &router.Counts{}
	}
	return m
}

// measureQuestions has the histograms told of answers.
func (m *meters) measureQuestions() {
	for name, c := range m.questions {
		c.Waited = m.latency(queryLatency, name)
	}
}

// begin makes the instruments, and shows what they are asked for from now on. Its error is an *OptionError with the
// provider's.
func (m *meters) begin() error {
	if m == nil {
		return nil
	}
	meter := m.node.opts.meters.Meter(scopeName)
	instruments, errs := make([]metric.Observable, len(metricRows)), make([]error, len(metricRows)+1)
	for i := range metricRows {
		instruments[i], errs[i] = metricRows[i].instrument(meter)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m.observe(o, instruments)
		return nil
	}, instruments...)
	if err := errors.Join(append(errs, err, m.makeHistograms(meter))...); err != nil {
		return &OptionError{"WithMeterProvider", "it makes no instruments: " + err.Error()}
	}
	m.registration = registration
	m.measureQuestions()
	return nil
}

// ofQuestions is where the router counts.
func (m *meters) ofQuestions() map[string]*router.Counts {
	if m == nil {
		return nil
	}
	return m.questions
}

// observe tells what every row shows at this moment.
func (m *meters) observe(o metric.Observer, instruments []metric.Observable) {
	s := m.scrape()
	app := attribute.String("app", m.node.app)
	for i := range metricRows {
		row := &metricRows[i]
		row.read(s, func(v float64, values ...string) {
			labels := []attribute.KeyValue{app}
			for j, name := range row.labels {
				labels = append(labels, attribute.String(name, values[j]))
			}
			set := metric.WithAttributeSet(attribute.NewSet(labels...))
			switch i := instruments[i].(type) {
			case metric.Float64Observable:
				o.ObserveFloat64(i, v, set)
			case metric.Int64Observable:
				o.ObserveInt64(i, int64(v), set)
			}
		})
	}
}

// end lets go of the provider: a later node of the application counts anew.
func (m *meters) end() {
	if m == nil || m.registration == nil {
		return
	}
	if err := m.registration.Unregister(); err != nil {
		m.node.opts.logger.Warn("the metrics stay registered", "err", err)
	}
}

// thread is the meter of a thread's name. The mutex is held.
func (m *meters) thread(name string) *threadMeter {
	t := m.threads[name]
	if t == nil {
		t = &threadMeter{work: thread.NewWork(time.Now, m.latencies(name)), failures: map[string]int64{}}
		m.threads[name] = t
	}
	return t
}

// work is where a thread's loops count; nil without meters.
func (m *meters) work(name string) *thread.Work {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.thread(name).work
}

// ofTasks is work for tasks.
func (m *meters) ofTasks() func(record.TaskID) *thread.TaskWork {
	if m == nil {
		return nil
	}
	return m.task
}

func (m *meters) task(id record.TaskID) *thread.TaskWork {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil {
		t = &thread.TaskWork{}
		m.tasks[id] = t
	}
	return t
}

// measureTask has a task count what it leaves out.
func (m *meters) measureTask(cfg *task.Config) {
	if m != nil {
		work := m.task(cfg.ID)
		cfg.Dropped, cfg.Answered = work.Drop, work.Answer
	}
}

func (m *meters) store(at storePartition) *storeMeter {
	s := m.stores[at]
	if s == nil {
		s = &storeMeter{restores: map[string]int64{}}
		s.counts.Restored = m.latency(restoreLatency, at.store)
		m.stores[at] = s
	}
	return s
}

// counts is where a store partition counts; nil without meters.
func (m *meters) counts(at storePartition) *store.Counts {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.store(at).counts
}

// restored counts a restore of some stores of a task. The results end with the one that failed.
func (m *meters) restored(id record.TaskID, names []string, results []store.RestoreResult, err error, cancelled bool, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, name := range names {
		s, outcome := m.store(storePartition{name, id.String()}), restoreDone
		switch last := max(len(results), 1) - 1; {
		case err != nil && cancelled && i >= last:
			outcome = restoreCancelled
		case err != nil && i == last:
			outcome = restoreFailed
		case i >= len(results):
			continue // it was not begun
		}
		s.restores[outcome]++
		if i < len(results) {
			s.restored += results[i].Records
			if results[i].Discarded != store.DiscardNone {
				s.discarded++
			}
		}
	}
	if len(names) > 0 {
		m.store(storePartition{names[0], id.String()}).restoring += took
	}
}

// movedAside counts local copies that could not be used.
func (m *meters) movedAside(id record.TaskID, spec store.TaskSpec) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range spec.Stores {
		m.store(storePartition{s.Name, id.String()}).discarded++
	}
}

// sized notes what a store takes on disk. It is asked for by who owns the state, now and then: a scrape waits for no disk.
func (m *meters) sized(at storePartition, state *store.TaskState, index int) {
	bytes, err := state.DiskUsage(index)
	if err != nil {
		return // closed, or failed, which others tell
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store(at).disk = bytes
}

// failed counts a failure that supervision has heard of.
func (m *meters) failed(f Failure) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thread(f.Thread).failures[failureKind(f.Cause)]++
}

// retire keeps what a slot has counted that is let go of.
func (m *meters) retire(s *slot) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, c := m.thread(s.Name), s.producer.Counts()
	t.retired.add(c)
	t.blocked += s.Blocked()
	for i, n := range c.Errors {
		t.errors[i] += n
	}
}

// failureKinds are the kinds of failures of threads; the first that fits counts.
var failureKinds = []struct {
	name string
	is   func(error) bool
}{
	{"stuck", as[*thread.StuckError]},
	{"exhausted", as[*thread.ExhaustedError]},
	{"store", as[*store.EngineError]},
	{"restore", as[*store.ChangelogError]},
	{"broker", func(err error) bool { return as[*broker.Error](err) && !isOfRecord(err) }},
	{"record", func(err error) bool { return isOfRecord(err) || as[*GlobalRecordError](err) }},
	{"processor", as[*task.ProcessError]},
	{"panic", as[*actors.Panic]},
	{"other", func(error) bool { return true }},
}

// isOfRecord says that one record is at fault.
func isOfRecord(err error) bool {
	p := (*task.ProcessError)(nil)
	return errors.As(err, &p) && p.Source.Topic != "" && !p.Outside
}

func failureKind(cause error) string {
	for _, k := range failureKinds {
		if k.is(cause) {
			return k.name
		}
	}
	return ""
}

// Metrics implements httpapi.Measured.
func (o operator) Metrics() http.Handler {
	h, _ := o.opts.meters.(http.Handler)
	return h
}
