package task_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// fragile is the codec of texts that fail by what they say: "unreadable" and "mangled" when they are read, the second
// with a panic, "unwritable" when they are written.
type fragile struct{ codec.Codec[string] }

func (fragile) Name() string { return "fragile" }

func (f fragile) Decode(b []byte) (string, error) {
	switch s := string(b); s {
	case "unreadable":
		return "", errCodec
	case "mangled":
		panic(errCodec)
	default:
		return s, nil
	}
}

func (f fragile) Encode(dst []byte, s string) ([]byte, error) {
	if strings.HasPrefix(s, "unwritable") {
		return nil, errCodec
	}
	return append(dst, s...), nil
}

var (
	errCodec = errors.New("the codec refuses")
	errHuge  = &broker.Error{Op: broker.OpProduce, Code: 10, Class: broker.Record, Source: tp("out", 1), Cause: errors.New("too large")}

	texts  = fragile{codec.String}
	input  = topology.NewTopic("in", texts, texts)
	output = topology.NewTopic("out", texts, texts)
	seen   = topology.NewKeyValueStore("seen", codec.String, codec.Int64)
)

// worker counts each key, forwards the record, and then fails if the value says so: what it did before stays.
type worker struct {
	ctx  *topology.Context[string, string]
	seen *topology.KeyValue[string, int64]
}

func (w *worker) Init(ctx *topology.Context[string, string]) (err error) {
	w.ctx = ctx
	w.seen, err = seen.In(ctx)
	return err
}

func (w *worker) Process(r record.Record[string, string]) error {
	n, _, err := w.seen.Get(r.Key)
	if err != nil {
		return err
	}
	if err := w.seen.Put(r.Key, n+1, r.Timestamp); err != nil {
		return err
	}
	if err := w.ctx.Forward(r); err != nil {
		return err
	}
	if strings.HasPrefix(r.Value, "commit") {
		w.ctx.RequestCommit()
	}
	switch {
	case strings.HasSuffix(r.Value, "fail"):
		return errUser
	case strings.HasSuffix(r.Value, "panic"):
		panic(errUser)
	}
	return nil
}

func (w *worker) Close() error { return nil }

// handled is a task whose topology has handlers.
type handled struct {
	t     *testing.T
	task  *task.Task
	state *tasktest.State
	out   *tasktest.Producer
	// asked is each question that a handler got.
	asked []string
	// answer is what every handler answers.
	answer topology.Response
	at     int64
}

func newHandled(t *testing.T, answer topology.Response) *handled {
	t.Helper()
	return wired(t, answer, []record.TopicPartition{tp("in", 0)}, func(b *topology.Builder) {
		work := func() topology.Processor[string, string, string, string] { return &worker{} }
		topology.To(topology.Process(topology.From(b, input), "worker", work, seen), output)
	})
}

// wired is a task of another topology; its handlers answer the same, and its dead-letter topic is "dead".
func wired(t *testing.T, answer topology.Response, sources []record.TopicPartition, wire func(*topology.Builder)) *handled {
	t.Helper()
	h := &handled{t: t, answer: answer, state: tasktest.NewState(1)}
	used(h.state)
	h.out = tasktest.NewProducer(map[string]int32{"out": 2, "dead": 4})
	h.out.Refuse = func(to record.TopicPartition, r *record.Raw) error {
		if to.Topic == "out" && strings.HasPrefix(string(r.Value), "huge") {
			return errHuge
		}
		return nil
	}
	b := topology.NewBuilder()
	wire(b)
	b.OnDeserializationError(h.handle)
	b.OnProcessingError(h.handle)
	b.OnProductionError(h.handle)
	b.DeadLetterTopic("dead")
	h.start(h.build(b), sources)
	return h
}

func (h *handled) build(b *topology.Builder) *topology.SubTopology {
	top, err := b.Build()
	if err != nil {
		h.t.Fatal(err)
	}
	return top.Bind("app").SubTopologies[0]
}

func (h *handled) start(sub *topology.SubTopology, sources []record.TopicPartition) {
	h.t.Helper()
	cfg := task.Config{ID: record.TaskID{Partition: 1}, Sources: sources, State: h.state, Producer: h.out, CacheBytes: 1 << 20, MaxIdle: -1}
	for _, s := range sub.Stores {
		cfg.Stores = append(cfg.Stores, task.StoreConfig{Name: s.Name, Changelog: tp("app-"+s.Name+"-changelog", 1)})
	}
	cfg.Chain = func(host topology.Host) (task.Chain, error) { return sub.Instantiate(host) }
	h.task = start(h.t, cfg)
}

// handle notes the question and answers.
func (h *handled) handle(c topology.ErrorContext, err error) topology.Response {
	q := fmt.Sprintf("%s at %q", c.Stage, c.Node)
	if c.Input != nil {
		q += fmt.Sprintf(", %s@%d=%s", c.Source, c.Input.Offset, c.Input.Value)
	}
	if c.Output != nil {
		q += fmt.Sprintf(", to %s: %s", c.Destination, c.Output.Value)
	}
	if e := (*task.ProcessError)(nil); errors.As(err, &e) && e.Stack != nil {
		q += ", panicked"
	}
	h.asked = append(h.asked, q)
	return h.answer
}

// add gives the task records with the key k and the given values, one offset each.
func (h *handled) add(values ...string) {
	h.t.Helper()
	var records []record.Raw
	for _, v := range values {
		records = append(records, record.Raw{Key: []byte("k"), Value: []byte(v)})
	}
	h.addRaw(tp("in", 0), records...)
}

func (h *handled) addRaw(source record.TopicPartition, records ...record.Raw) {
	h.t.Helper()
	b := broker.Batch{Source: source, From: h.at, Next: h.at + int64(len(records)), Bytes: len(records), LastStable: -1}
	for i, r := range records {
		r.Offset, r.Timestamp = h.at+int64(i), 100+h.at+int64(i)
		b.Records = append(b.Records, r)
	}
	h.at, b.HighWatermark = b.Next, b.Next
	if !h.task.Add(b) {
		h.t.Fatal("refused", b)
	}
}

func (h *handled) process() (int, error) { return h.task.Process(now, 100) }

// values are the values in a topic, by partition and offset.
func (h *handled) values(topic string) (all []string) {
	for _, r := range h.records(topic) {
		all = append(all, string(r.Value))
	}
	return all
}

func (h *handled) records(topic string) (all []record.Raw) {
	for p := range h.out.Counts[topic] {
		all = append(all, h.out.Log[tp(topic, p)]...)
	}
	return all
}

// commit carries a whole commit out.
func (h *handled) commit() *task.Unit {
	h.t.Helper()
	return commit(h.t, h.task, h.state)
}
