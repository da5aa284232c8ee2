package topology_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

func TestResponsesAndStagesHaveNames(t *testing.T) {
	var got []string
	for r := range DeadLetter + 2 {
		got = append(got, r.String())
	}
	for s := range Stages + 1 {
		got = append(got, s.String())
	}
	want := []string{"fail", "skip", "dead-letter", "response(3)", "deserialization", "processing", "production", "stage(3)"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Each stage has its own handler, an Instance has the topology's, and what is missing fails.
func TestHandlersReachTheInstance(t *testing.T) {
	b := NewBuilder()
	To(From(b, in), out)
	boom := errors.New("boom")
	b.OnDeserializationError(func(c ErrorContext, err error) Response {
		if c.Node != "source" || err != boom {
			t.Errorf("%+v %v", c, err)
		}
		return DeadLetter
	})
	b.Always(Production, Skip)
	b.DeadLetterTopic("dead")
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	bound := top.Bind("app")
	instance, err := bound.SubTopologies[0].Instantiate(newMemory())
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]Handlers{"built": top.Handlers(), "bound": bound.Handlers(), "instance": instance.Handlers()} {
		if h.DeadLetterTopic != "dead" {
			t.Errorf("%s: dead-letter topic %q", name, h.DeadLetterTopic)
		}
		for stage, want := range map[Stage]Response{Deserialization: DeadLetter, Processing: Fail, Production: Skip, Stages: Fail} {
			if got := h.Answer(ErrorContext{Stage: stage, Node: "source"}, boom); got != want {
				t.Errorf("%s: %s answers %s, want %s", name, stage, got, want)
			}
		}
	}
	if instance.Sink("out") != "sink-0000000001" || instance.Sink("in") != "" {
		t.Errorf("sinks %q and %q", instance.Sink("out"), instance.Sink("in"))
	}
	if d := bound.Describe(); !strings.Contains(d, "Dead-letter topic: dead\n") {
		t.Error(d)
	}
}

// A topic that is only written may be the dead-letter topic, too: others' records may go there by a sink.
func TestADeadLetterTopicMayBeWritten(t *testing.T) {
	b := NewBuilder()
	dead(b, "out")
	if _, err := b.Build(); err != nil {
		t.Fatal(err)
	}
}

var atSource = record.TopicPartition{Topic: "in", Partition: 3}

func headers(pairs ...string) (h record.Headers) {
	for i := 0; i < len(pairs); i += 2 {
		h = append(h, record.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return h
}

// Null stays null, empty stays empty, headers stay in front (H18).
func TestNewDeadLetter(t *testing.T) {
	task := record.TaskID{SubTopology: 1, Partition: 3}
	why := &SinkError{Node: "sink", Topic: "out", Cause: io.ErrShortWrite}
	own := headers("trace", "7")
	cause := func(stage, node string) record.Headers {
		return append(headers(HeaderException, "*errors.errorString", HeaderMessage, why.Error()),
			headers(HeaderTopic, "in", HeaderPartition, "3", HeaderOffset, "9", HeaderTimestamp, "-1", HeaderStage, stage, HeaderNode, node, HeaderTask, "1_3")...)
	}
	for name, row := range map[string]struct {
		context ErrorContext
		want    record.Raw
	}{
		"null value": {
			ErrorContext{Task: task, Stage: Processing, Node: "p", Source: atSource, Input: &record.Raw{Key: []byte("k"), Timestamp: -1, Offset: 9, Headers: own}},
			record.Raw{Key: []byte("k"), Timestamp: 5, Headers: append(headers("trace", "7"), cause("processing", "p")...)},
		},
		"null key, empty value": {
			ErrorContext{Task: task, Stage: Deserialization, Node: "s", Source: atSource, Input: &record.Raw{Value: []byte{}, Timestamp: -1, Offset: 9}},
			record.Raw{Value: []byte{}, Timestamp: 5, Headers: cause("deserialization", "s")},
		},
		"only headers": {
			ErrorContext{Task: task, Stage: Processing, Node: "p", Source: atSource, Input: &record.Raw{Timestamp: -1, Offset: 9, Headers: own}},
			record.Raw{Timestamp: 5, Headers: append(headers("trace", "7"), cause("processing", "p")...)},
		},
		"output, with its input": {
			ErrorContext{Task: task, Stage: Production, Node: "sink", Source: atSource, Input: &record.Raw{Key: []byte("k"), Timestamp: -1, Offset: 9},
				Destination: record.TopicPartition{Topic: "out", Partition: -1}, Output: &record.Raw{Key: []byte("other")}},
			record.Raw{Key: []byte("k"), Timestamp: 5, Headers: append(cause("production", "sink"), headers(HeaderDestinationTopic, "out")...)},
		},
		"output alone": {
			ErrorContext{Task: task, Stage: Production, Destination: record.TopicPartition{Topic: "out", Partition: 2}, Output: &record.Raw{Key: []byte("k"), Value: []byte("v"), Headers: own}},
			record.Raw{Key: []byte("k"), Value: []byte("v"), Timestamp: 5, Headers: append(headers("trace", "7", HeaderException, "*errors.errorString", HeaderMessage, why.Error()),
				headers(HeaderStage, "production", HeaderTask, "1_3", HeaderDestinationTopic, "out", HeaderDestinationPartition, "2")...)},
		},
		"punctuation": {
			ErrorContext{Task: task, Stage: Processing, Node: "p"},
			record.Raw{Timestamp: 5, Headers: headers(HeaderException, "*errors.errorString", HeaderMessage, why.Error(), HeaderStage, "processing", HeaderNode, "p", HeaderTask, "1_3")},
		},
	} {
		got := NewDeadLetter(row.context, why, nil, 5)
		if d := cmp.Diff(row.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if len(own) != 1 {
		t.Error("the record's own headers were changed")
	}
}

// What a dead letter says is bounded, so that it is not too large because of its reason.
func TestDeadLetterHeadersAreBounded(t *testing.T) {
	r := NewDeadLetter(ErrorContext{}, errors.New("x"+strings.Repeat("é", 5_000)), []byte(strings.Repeat("s", 50_000)), -7)
	message, _ := r.Headers.Last(HeaderMessage)
	stack, _ := r.Headers.Last(HeaderStacktrace)
	if len(message) != 1_999 || !utf8.Valid(message) || len(stack) != 8_000 || r.Timestamp != 0 {
		t.Errorf("message of %d bytes, stack of %d, timestamp %d", len(message), len(stack), r.Timestamp)
	}
}

// A sink asks about everything that it cannot send, and goes on if it may.
func TestSinkAsksAboutEachRecord(t *testing.T) {
	type asked struct {
		Key, Value string
		Partition  int32
		Cause      string
	}
	refusing := NewTopic("out", codec.String, codec.JSON[func()]())
	for name, row := range map[string]struct {
		wire func(*Builder)
		fail error
		want asked
	}{
		"codec": {
			func(b *Builder) { To(MapValues(From(b, in), func(string) func() { return func() {} }), refusing) },
			nil, asked{Key: "k", Partition: -1, Cause: "codec json:func(): cannot write the value: json: unsupported type: func()"},
		},
		"partitioner": {
			func(b *Builder) {
				To(From(b, in), out, WithPartitioner(func(string, string, int32) int32 { return 4 }))
			},
			nil, asked{"k", "v", -1, "the partitioner gave partition 4 of 4"},
		},
		"send": {
			func(b *Builder) {
				To(From(b, in), out, WithPartitioner(func(string, string, int32) int32 { return 2 }))
			},
			errBroker, asked{"k", "v", 2, errBroker.Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []asked
			host := newMemory()
			host.sendError = row.fail
			answer := error(nil)
			host.refused = func(r *record.Raw, partition int32, err *SinkError) error {
				got = append(got, asked{string(r.Key), string(r.Value), partition, err.Cause.Error()})
				if answer == nil {
					return nil
				}
				return fmt.Errorf("%w: %w", answer, err)
			}
			b := NewBuilder()
			row.wire(b)
			w := start(t, b, host)
			w.feed("in", "k", "v", 1)
			answer = errors.New("no")
			if err := w.raw("in", &record.Raw{Key: []byte("k"), Value: []byte("v")}); !errors.Is(err, answer) {
				t.Errorf("%v", err)
			}
			if d := cmp.Diff([]asked{row.want, row.want}, got); d != "" || len(w.sent("out")) > 0 {
				t.Error(d)
			}
		})
	}
}
