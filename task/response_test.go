package task_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// failings has one way for a record to fail a line: what the handler is asked, and whether the worker has seen the record
// and the output has it: those effects came before the failure.
var failings = []struct {
	value string
	stage topology.Stage
	node  string
	asked []string
	seen  bool
	sent  bool
}{
	{"unreadable", topology.Deserialization, "source-0000000000", []string{`deserialization at "source-0000000000", in-0@1=unreadable`}, false, false},
	{"mangled", topology.Deserialization, "source-0000000000", []string{`deserialization at "source-0000000000", in-0@1=mangled, panicked`}, false, false},
	{"fail", topology.Processing, "worker", []string{`processing at "worker", in-0@1=fail`}, true, true},
	{"panic", topology.Processing, "", []string{`processing at "", in-0@1=panic, panicked`}, true, true},
	{"unwritable", topology.Production, "sink-0000000002", []string{`production at "sink-0000000002", in-0@1=unwritable, to out-0: `}, true, false},
	{"huge", topology.Production, "sink-0000000002", []string{`production at "sink-0000000002", in-0@1=huge, to out-0: huge`}, true, false},
}

// Case H17: a record that fails each time, in one place or another. Skip: the ones behind it are processed, and it is
// counted. Fail: the error names the record, and neither its offset nor half of it can be committed. No loop in either.
func TestAFailingRecordMeetsItsHandler(t *testing.T) {
	for _, row := range failings {
		for _, answer := range []topology.Response{topology.Fail, topology.Skip, topology.DeadLetter} {
			t.Run(row.value+"/"+answer.String(), func(t *testing.T) {
				h := newHandled(t, answer)
				h.add("a", row.value, "b", "c")
				n, err := h.process()
				asked := slices.Clone(row.asked)
				if diff := cmp.Diff(asked, h.asked); diff != "" {
					t.Error(diff)
				}
				if got := h.task.Responses(); got[row.stage][answer] != 1 || got[row.stage][topology.Fail]+got.Dropped(row.stage) != 1 {
					t.Errorf("counted %v", got)
				}
				if answer == topology.Fail {
					failed(t, h, n, err, row.node)
					return
				}
				passed(t, h, n, err, row.value, row.seen, row.sent)
				if dead := h.values("dead"); answer == topology.DeadLetter != slices.Equal(dead, []string{row.value}) || answer == topology.Skip && len(dead) > 0 {
					t.Errorf("dead letters %q", dead)
				}
			})
		}
	}
}

func failed(t *testing.T, h *handled, n int, err error, node string) {
	t.Helper()
	var e *task.ProcessError
	if n != 1 || !errors.As(err, &e) || e.Source != tp("in", 0) || e.Offset != 1 || e.Node != node || !(errors.Is(err, errUser) || errors.Is(err, errCodec) || errors.Is(err, errHuge)) {
		t.Errorf("%d, %+v", n, e)
	}
	if !strings.Contains(err.Error(), "record at offset 1 of in-0") {
		t.Error(err)
	}
	if len(h.values("dead")) > 0 {
		t.Error("a dead letter of a record that is tried again")
	}
	if _, again := h.process(); again != err {
		t.Errorf("a failed task went on: %v", again)
	}
	refuses(t, h.task, err)
}

func passed(t *testing.T, h *handled, n int, err error, value string, seen, sent bool) {
	t.Helper()
	if n != 4 || err != nil {
		t.Fatal(n, err)
	}
	u := h.commit()
	if at := u.Offsets[tp("in", 0)]; at.At != 4 {
		t.Errorf("offset %v", at)
	}
	if m, _ := task.ParseMetadata(u.Offsets[tp("in", 0)].Metadata); m.PartitionTime != 103 {
		t.Errorf("partition time %d", m.PartitionTime)
	}
	want := []string{"a", value, "b", "c"}
	if !sent {
		want = []string{"a", "b", "c"}
	}
	if diff := cmp.Diff(want, h.values("out")); diff != "" {
		t.Error(diff)
	}
	if got := h.state.Stores[0]["k"].Value[7]; got != map[bool]byte{true: 4, false: 3}[seen] {
		t.Errorf("the store has %d", got)
	}
	if err := task.Audit(h.task); err != nil {
		t.Error(err)
	}
}

// Partition and stream time move past a skipped record that is the last one, and so does the batch: its credit comes back.
func TestPositionsMovePastSkippedRecords(t *testing.T) {
	for _, sources := range [][]record.TopicPartition{{tp("in", 0)}, {tp("in", 0), tp("more", 0)}} {
		h := wired(t, topology.Skip, sources, func(b *topology.Builder) {
			s := topology.From(b, input)
			if len(sources) > 1 {
				s = topology.Merge(s, topology.From(b, topology.NewTopic("more", texts, texts)))
			}
			topology.To(s, output)
		})
		for range 3 {
			h.add("unreadable", "unreadable")
		}
		if n, err := h.process(); n != 6 || err != nil {
			t.Fatal(n, err)
		}
		credit := 0
		h.task.Credits(func(_ record.TopicPartition, bytes int) { credit += bytes })
		if credit != 6 || h.task.Buffered() != 0 || task.StreamTime(h.task) != 105 || !h.task.NeedsCommit() {
			t.Errorf("%d sources: credit %d, buffered %d, stream time %d", len(sources), credit, h.task.Buffered(), task.StreamTime(h.task))
		}
		if u := h.commit(); u.Position[tp("in", 0)] != 6 {
			t.Error(u.Position)
		}
	}
}

// The budget and a commit that is asked for hold behind skipped records too.
func TestSkippedRecordsCountForTheBudget(t *testing.T) {
	h := newHandled(t, topology.Skip)
	h.add("fail", "a", "panic", "b", "commit and panic", "c", "commit", "d")
	for _, want := range []struct{ budget, taken int }{{1, 1}, {2, 2}, {9, 2}} {
		if n, err := h.task.Process(now, want.budget); n != want.taken || err != nil {
			t.Fatal(n, err, want)
		}
	}
	if !h.task.CommitRequested() || h.commit().Position[tp("in", 0)] != 5 {
		t.Error("it did not stop behind the record that asked for a commit and failed")
	}
	if n, err := h.process(); n != 2 || err != nil {
		t.Fatal(n, err)
	}
}

// Case H18: dead letters of records with a null value, a null key, both null with headers alone, and 1 MiB; each once,
// null-ness and headers kept, in the partition of its key, and the source's offset moves on.
func TestDeadLettersKeepTheRecord(t *testing.T) {
	h := wired(t, topology.DeadLetter, []record.TopicPartition{tp("in", 0)}, func(b *topology.Builder) {
		topology.To(topology.Map(topology.From(b, input), func(r record.Record[string, string]) (record.Record[string, string], error) { return r, errUser }), output)
	})
	large := bytes.Repeat([]byte("x"), 1<<20)
	trace := record.Headers{{Key: "trace", Value: []byte("1")}, {Key: "null"}}
	records := []record.Raw{{Key: []byte("k")}, {Value: []byte("v")}, {Headers: trace}, {Key: []byte("large"), Value: large}, {Key: []byte{}, Value: []byte{}}}
	h.addRaw(tp("in", 0), records...)
	if n, err := h.process(); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if u := h.commit(); u.Position[tp("in", 0)] != 5 {
		t.Error(u.Position)
	}
	byOffset := map[string]record.Raw{}
	for p := range int32(4) {
		for _, r := range h.out.Log[tp("dead", p)] {
			offset, _ := r.Headers.Last(topology.HeaderOffset)
			byOffset[string(offset)] = r
			if r.Key != nil && record.Partition(r.Key, 4) != p {
				t.Errorf("key %q is in partition %d", r.Key, p)
			}
		}
	}
	if len(byOffset) != 5 || len(h.records("dead")) != 5 {
		t.Fatalf("%d dead letters of %d offsets", len(h.records("dead")), len(byOffset))
	}
	for i, want := range records {
		got := byOffset[string(rune('0'+i))]
		if (got.Key == nil) != (want.Key == nil) || (got.Value == nil) != (want.Value == nil) || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
			t.Errorf("record %d: null key %v, null value %v, %d bytes", i, got.Key == nil, got.Value == nil, len(got.Value))
		}
		if own := got.Headers[:len(want.Headers)]; len(want.Headers) > 0 && cmp.Diff(want.Headers, own) != "" {
			t.Errorf("record %d: headers %v", i, own)
		}
		for header, text := range map[string]string{topology.HeaderTopic: "in", topology.HeaderPartition: "0", topology.HeaderStage: "processing",
			topology.HeaderNode: "map-0000000001", topology.HeaderTask: "0_1", topology.HeaderTimestamp: "10" + string(rune('0'+i)),
			topology.HeaderException: "*errors.errorString", topology.HeaderMessage: `processor "map-0000000001": user`} {
			if v, _ := got.Headers.Last(header); string(v) != text {
				t.Errorf("record %d: header %s is %q, want %q", i, header, v, text)
			}
		}
		if got.Timestamp != now.UnixMilli() {
			t.Errorf("record %d: timestamp %d", i, got.Timestamp)
		}
	}
}

// A record that fails at two sinks and then in its processor is in the dead-letter topic once, and once again only if its
// interval was taken back.
func TestOneDeadLetterForEachRecord(t *testing.T) {
	h := newHandled(t, topology.DeadLetter)
	h.add("huge fail", "huge panic")
	if n, err := h.process(); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if diff := cmp.Diff([]string{"huge fail", "huge panic"}, h.values("dead")); diff != "" || len(h.asked) != 4 {
		t.Error(diff, h.asked)
	}
	if got := h.task.Responses(); got[topology.Production][topology.DeadLetter] != 2 || got[topology.Processing][topology.DeadLetter] != 2 {
		t.Error(got)
	}
	if err := h.task.Start(now, h.task.Rewind()); err != nil {
		t.Fatal(err)
	}
	h.at = 0
	h.add("huge fail", "huge panic")
	if n, err := h.process(); n != 2 || err != nil || len(h.values("dead")) != 4 {
		t.Fatal(n, err, h.values("dead"))
	}
}

// If the dead letter cannot be written, the stated outcome is a failed task, once: no loop, and no offset behind it.
func TestADeadLetterThatCannotBeWritten(t *testing.T) {
	for name, cause := range map[string]error{
		"refused": &broker.Error{Op: broker.OpProduce, Code: 10, Class: broker.Record, Source: tp("dead", 2)}, "port": io.ErrUnexpectedEOF,
	} {
		for _, value := range []string{"unreadable", "fail", "panic", "huge"} {
			t.Run(name+"/"+value, func(t *testing.T) {
				h := newHandled(t, topology.DeadLetter)
				refuse, tries := h.out.Refuse, 0
				h.out.Refuse = func(to record.TopicPartition, r *record.Raw) error {
					if to.Topic == "dead" {
						tries++
						return cause
					}
					return refuse(to, r)
				}
				h.add("a", value)
				n, err := h.process()
				var dead *task.DeadLetterError
				var e *task.ProcessError
				if n != 1 || !errors.As(err, &dead) || !errors.Is(err, cause) || !errors.As(err, &e) || e.Offset != 1 || tries != 1 || len(h.asked) != 1 {
					t.Fatalf("%d taken, %d tries, %d questions: %v", n, tries, len(h.asked), err)
				}
				if errors.As(dead.Cause, &e) {
					t.Error("the coordinates are there twice")
				}
				refuses(t, h.task, err)
			})
		}
	}
}

// Without a topic the error says what to do; with one that does not exist, the task does not even start.
func TestDeadLetterTopicIsMissing(t *testing.T) {
	h := &handled{t: t, answer: topology.DeadLetter}
	h.state, h.out = newPorts()
	b := topology.NewBuilder()
	topology.To(topology.From(b, input), output)
	b.OnDeserializationError(h.handle)
	h.start(h.build(b), []record.TopicPartition{tp("in", 0)})
	h.add("unreadable")
	if _, err := h.process(); !errors.Is(err, task.ErrNoDeadLetterTopic) || !errors.Is(err, errCodec) || !strings.Contains(err.Error(), "Builder.DeadLetterTopic") {
		t.Error(err)
	}
	if got := h.task.Responses(); got[topology.Deserialization][topology.Fail] != 1 {
		t.Error(got)
	}

	b.DeadLetterTopic("nowhere")
	sub := h.build(b)
	cfg := config(&script{}, h.state, h.out)
	cfg.Chain = func(host topology.Host) (task.Chain, error) { return sub.Instantiate(host) }
	k := newTask(t, cfg)
	k.Restoring()
	if err := k.Start(now, broker.Offsets{tp("in", 0): {}}); err == nil || !strings.Contains(err.Error(), `"nowhere"`) || !strings.Contains(err.Error(), "dead-letter topic") {
		t.Error(err)
	}
}

// A handler that panics, or gives an answer that there is not, has answered Fail.
func TestHandlersThatFail(t *testing.T) {
	for _, value := range []string{"unreadable", "fail", "huge"} {
		for name, handler := range map[string]func(topology.ErrorContext, error) topology.Response{
			"panic": func(topology.ErrorContext, error) topology.Response { panic(errHandler) },
			"other": func(topology.ErrorContext, error) topology.Response { return 9 },
		} {
			h := &handled{t: t}
			h.state, h.out = newPorts()
			h.out.Refuse = func(_ record.TopicPartition, r *record.Raw) error {
				if string(r.Value) == "huge" {
					return errHuge
				}
				return nil
			}
			b := topology.NewBuilder()
			topology.To(topology.Process(topology.From(b, input), "worker", func() topology.Processor[string, string, string, string] { return &worker{} }, seen), output)
			b.OnDeserializationError(handler)
			b.OnProcessingError(handler)
			b.OnProductionError(handler)
			h.start(h.build(b), []record.TopicPartition{tp("in", 0)})
			h.add(value)
			_, err := h.process()
			var e *task.ProcessError
			if !errors.As(err, &e) || e.Offset != 0 || name == "panic" != errors.Is(err, errHandler) || name == "panic" != (e.Stack != nil) {
				t.Errorf("%s, %s: %v", value, name, err)
			}
			if name == "other" && !strings.Contains(err.Error(), "response(9)") {
				t.Errorf("%s: %v", value, err)
			}
			refuses(t, h.task, err)
		}
	}
}

var errHandler = errors.New("handler")

// What is not about a record meets no handler: an engine, a cluster, and what the production handler has answered Fail to,
// also if the processor swallows it.
func TestHandlersAreNotAskedAboutPorts(t *testing.T) {
	h := newHandled(t, topology.Skip)
	h.state.Err = io.ErrUnexpectedEOF
	h.add("a")
	if _, err := h.process(); !errors.Is(err, io.ErrUnexpectedEOF) || len(h.asked) > 0 {
		t.Error(err, h.asked)
	}
	h = newHandled(t, topology.Skip)
	fenced := &broker.Error{Op: broker.OpProduce, Code: 90, Class: broker.Migrated}
	h.out.Refuse = func(record.TopicPartition, *record.Raw) error { return fenced }
	h.add("a")
	if _, err := h.process(); !errors.Is(err, fenced) || len(h.asked) > 0 {
		t.Error(err, h.asked)
	}
	h = wired(t, topology.Fail, []record.TopicPartition{tp("in", 0)}, func(b *topology.Builder) {
		topology.To(topology.FlatMap(topology.From(b, input), func(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
			_ = emit(r)
			return nil
		}), output)
	})
	h.add("huge")
	if n, err := h.process(); n != 0 || !errors.Is(err, errHuge) || len(h.asked) != 1 {
		t.Error(n, err, h.asked)
	}
}
