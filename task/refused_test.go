package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// refusal is a record that the producer took and a broker did not.
func refusal(to record.TopicPartition) broker.Refused {
	r := record.Raw{Key: []byte("key"), Value: []byte("refused"), Timestamp: 7, Headers: record.Headers{{Key: "trace", Value: []byte("1")}}}
	return broker.Refused{Source: to, Record: r, Err: &broker.Error{Op: broker.OpProduce, Code: 32, Class: broker.Record, Source: to}}
}

// What a broker refuses after it was sent, by where it should have gone and what the handler says. The commit that it
// belongs to is under way.
func TestRefused(t *testing.T) {
	ask := []string{`production at "sink-0000000002", to out-1: refused`}
	for name, row := range map[string]struct {
		to     record.TopicPartition
		answer topology.Response
		asked  []string
		dead   bool
		fails  bool
	}{
		"fail":                {to: tp("out", 1), answer: topology.Fail, asked: ask, fails: true},
		"skip":                {to: tp("out", 1), answer: topology.Skip, asked: ask},
		"dead letter":         {to: tp("out", 1), answer: topology.DeadLetter, asked: ask, dead: true},
		"changelog":           {to: tp("app-seen-changelog", 1), answer: topology.Skip, fails: true},
		"dead letter refused": {to: tp("dead", 2), answer: topology.DeadLetter, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandled(t, row.answer)
			h.add("a", "b")
			if _, err := h.process(); err != nil {
				t.Fatal(err)
			}
			u, err := h.task.Prepare(now)
			if err != nil {
				t.Fatal(err)
			}
			sent := len(h.out.Log)
			r := refusal(row.to)
			more, err := h.task.Refused(r)
			if diff := cmp.Diff(row.asked, h.asked); diff != "" || len(h.out.Log) != sent {
				t.Error(diff, len(h.out.Log))
			}
			if row.fails {
				refusedForGood(t, h, r, more, err, name == "dead letter refused")
				return
			}
			if err != nil || len(more) != map[bool]int{true: 1}[row.dead] {
				t.Fatal(more, err)
			}
			if row.dead {
				deadOutput(t, more[0], r)
			}
			h.task.Committed(u)
			h.state.Apply(u)
			h.task.Applied(u)
			if got := h.task.Responses(); got.Dropped(topology.Production) != 1 {
				t.Error(got)
			}
		})
	}
}

func refusedForGood(t *testing.T, h *handled, r broker.Refused, more []broker.Outgoing, err error, wasDead bool) {
	t.Helper()
	var e *task.ProcessError
	var d *task.DeadLetterError
	if !errors.As(err, &e) || e.Destination != r.Source || e.Source.Topic != "" || !errors.Is(err, r.Err) || more != nil {
		t.Fatalf("%v, %+v", more, err)
	}
	if errors.As(err, &d) != wasDead || !strings.Contains(err.Error(), "record for "+r.Source.String()) {
		t.Error(err)
	}
	if _, again := h.task.Refused(r); again != err {
		t.Errorf("the second one: %v", again)
	}
	refuses(t, h.task, err)
}

// deadOutput checks the dead letter of an output: its own bytes, and where it should have gone; its input is not known.
func deadOutput(t *testing.T, got broker.Outgoing, r broker.Refused) {
	t.Helper()
	if want := tp("dead", record.Partition(r.Record.Key, 4)); got.To != want || string(got.Record.Key) != "key" || string(got.Record.Value) != "refused" {
		t.Errorf("%+v", got)
	}
	if got.Record.Timestamp != now.UnixMilli() || got.Record.Headers[0].Key != "trace" || len(r.Record.Headers) != 1 {
		t.Errorf("%+v", got.Record)
	}
	for header, want := range map[string]string{
		topology.HeaderDestinationTopic: "out", topology.HeaderDestinationPartition: "1", topology.HeaderStage: "production",
		topology.HeaderException: "*broker.Error", topology.HeaderNode: "sink-0000000002",
	} {
		if v, _ := got.Record.Headers.Last(header); string(v) != want {
			t.Errorf("%s is %q, want %q", header, v, want)
		}
	}
	if _, ok := got.Record.Headers.Last(topology.HeaderTopic); ok {
		t.Error("the dead letter of an output has the coordinates of an input")
	}
}

// A dead letter for an output without a topic for it, and a task that does not run.
func TestRefusedWithoutAWay(t *testing.T) {
	h := &handled{t: t, answer: topology.DeadLetter}
	h.state, h.out = newPorts()
	b := topology.NewBuilder()
	topology.To(topology.From(b, input), output)
	b.OnProductionError(h.handle)
	h.start(h.build(b), []record.TopicPartition{tp("in", 0)})
	if _, err := h.task.Refused(refusal(tp("out", 0))); !errors.Is(err, task.ErrNoDeadLetterTopic) {
		t.Error(err)
	}
	h.task.Rewind()
	if _, err := h.task.Refused(refusal(tp("out", 0))); errors.Is(err, task.ErrNotRunning) || err == nil {
		t.Error("a failed task says why it failed:", err)
	}
	h = newHandled(t, topology.Skip)
	h.task.Rewind()
	if _, err := h.task.Refused(refusal(tp("out", 0))); !errors.Is(err, task.ErrNotRunning) || len(h.asked) > 0 {
		t.Error(err)
	}
}

func TestWrites(t *testing.T) {
	h := newHandled(t, topology.Skip)
	for to, want := range map[record.TopicPartition]bool{
		tp("out", 0): true, tp("out", 1): true, tp("dead", 3): true, tp("app-seen-changelog", 1): true,
		tp("app-seen-changelog", 0): false, tp("in", 0): false, {}: false,
	} {
		if h.task.Writes(to) != want {
			t.Errorf("%s: %v", to, !want)
		}
	}
}

// picky is a second processor, below an aggregation: it fails for one key, each in its way.
func picky(fail, panics string) func(record.Record[string, int64]) (record.Record[string, string], error) {
	return func(r record.Record[string, int64]) (record.Record[string, string], error) {
		switch r.Key {
		case fail:
			return record.Record[string, string]{}, errUser
		case panics:
			panic(errUser)
		}
		return record.WithValue(r, "counted"), nil
	}
}

// What an aggregation holds back fails one by one: skipped keys take no others with them, and the store keeps all.
func TestFlushGoesOnBehindWhatFails(t *testing.T) {
	for _, answer := range []topology.Response{topology.Fail, topology.Skip, topology.DeadLetter} {
		h := wired(t, answer, []record.TopicPartition{tp("in", 0)}, func(b *topology.Builder) {
			counts := topology.NewKeyValueStore("counts", codec.String, codec.Int64)
			topology.To(topology.Map(topology.Count(topology.From(b, input), counts), picky("b", "d")), output)
		})
		for _, key := range []string{"a", "b", "c", "d", "e", "b"} {
			h.addRaw(tp("in", 0), record.Raw{Key: []byte(key), Value: []byte("v")})
		}
		if _, err := h.process(); err != nil {
			t.Fatal(err)
		}
		u, err := h.task.Prepare(now)
		if answer == topology.Fail {
			if !errors.Is(err, errUser) || len(h.asked) != 1 {
				t.Error(err, h.asked)
			}
			continue
		}
		if err != nil || len(u.Writes) != 5 {
			t.Fatal(u, err)
		}
		if diff := cmp.Diff([]string{`processing at "map-0000000002"`, `processing at "", panicked`}, h.asked); diff != "" {
			t.Error(diff)
		}
		var keys []string
		for _, r := range h.records("out") {
			keys = append(keys, string(r.Key))
		}
		slices.Sort(keys)
		if diff := cmp.Diff([]string{"a", "c", "e"}, keys); diff != "" {
			t.Error(diff)
		}
		dead := h.records("dead")
		if len(dead) != map[topology.Response]int{topology.DeadLetter: 2}[answer] {
			t.Errorf("%d dead letters", len(dead))
		}
		for _, r := range dead {
			if _, ok := r.Headers.Last(topology.HeaderOffset); ok || r.Key != nil || r.Value != nil {
				t.Errorf("a dead letter of a flush: %+v", r)
			}
		}
		if err := task.Audit(h.task); err != nil {
			t.Error(err)
		}
	}
}

// A punctuation that fails is let go, and the others that are due come all the same.
func TestPunctuateGoesOnBehindWhatFails(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	calls := 0
	s.punctuate = func(int64, int64) error {
		if calls++; calls < 4 {
			return errUser
		}
		return nil
	}
	cfg := config(s, state, out)
	asked := 0
	cfg.Chain = func(h topology.Host) (task.Chain, error) {
		_, err := s.chain(h)
		return &answering{s, &asked}, err
	}
	k := start(t, cfg)
	if err := k.Punctuate(now); err != nil || calls != 4 || asked != 3 {
		t.Errorf("%v after %d calls, %d questions", err, calls, asked)
	}
	calls = -1 << 40 // a chain that fails for ever must not be asked for ever
	if err := k.Punctuate(now); !errors.Is(err, errUser) || asked > 2_000 {
		t.Errorf("%v after %d questions", err, asked)
	}
}

// answering is a script with a handler that skips.
type answering struct {
	*script
	asked *int
}

func (a *answering) Handlers() topology.Handlers {
	return topology.Handlers{Processing: func(c topology.ErrorContext, _ error) topology.Response {
		*a.asked++
		if c.Input != nil || c.Source.Topic != "" {
			return topology.Fail
		}
		return topology.Skip
	}}
}
func (a *answering) Sink(string) string { return "" }
func (a *answering) Unreadable(string, *record.Raw) (source, part string, ok bool) {
	return "", "", false
}
