package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// notes is a tracer that writes down what it hears of.
type notes struct{ said []string }

type note struct{ *notes }

type noted struct{}

func (n *notes) Batch(id record.TaskID, sources []record.TopicPartition) task.Span {
	n.said = append(n.said, fmt.Sprint("batch ", id, " ", sources))
	return note{n}
}

func (n note) Context() context.Context { return context.WithValue(context.Background(), noted{}, n) }
func (n note) Headers() record.Headers {
	return record.Headers{{Key: "of", Value: []byte("span")}, {Key: "state"}}
}
func (n note) Take(tp record.TopicPartition, r *record.Raw) {
	n.said = append(n.said, fmt.Sprint(tp, " ", r.Offset))
}
func (n note) Answered(why error, r topology.Response) { n.said = append(n.said, r.String()) }
func (n note) End(taken int, err error) {
	n.said = append(n.said, fmt.Sprint("end ", taken, " ", err != nil))
}

func TestBatchesAreTraced(t *testing.T) {
	for _, test := range []struct {
		sources []record.TopicPartition
		budget  int
		want    []string
	}{
		{[]record.TopicPartition{tp("in", 0)}, 2, []string{"batch 1_2 [in-0]", "in-0 0", "in-0 1", "end 2 false"}},
		{[]record.TopicPartition{tp("in", 0), tp("in", 1)}, 4, []string{"batch 1_2 [in-0 in-1]", "in-0 0", "in-1 0", "in-0 1", "in-0 2", "fail", "end 3 true"}},
	} {
		n, s := &notes{}, &script{}
		state, out := newPorts()
		cfg := config(s, state, out)
		cfg.Sources, cfg.Tracer = test.sources, n
		k := start(t, cfg)
		if taken, err := k.Process(now, 10); taken != 0 || err != nil || len(n.said) > 0 {
			t.Fatal("a call without a record has a span:", taken, err, n.said)
		}
		s.process = func(_ string, r *record.Raw) error {
			if _, ok := s.host.Context().Value(noted{}).(note); !ok {
				t.Error("the processor sees no span")
			}
			if r.Timestamp == 9 {
				return errors.New("broken")
			}
			return nil
		}
		k.Add(batch(tp("in", 0), 0, 1, 2, 9))
		if len(test.sources) > 1 {
			k.Add(batch(tp("in", 1), 0, 1))
		}
		_, _ = k.Process(now, test.budget)
		if !slices.Equal(n.said, test.want) {
			t.Errorf("%q, not %q", n.said, test.want)
		}
		if s.host.Context().Value(noted{}) != nil {
			t.Error("there is a span after the batch")
		}
	}
}

// A record that is sent carries the span's headers in the place of its own of the same names; one that a commit sends has none.
func TestOutputsCarryTheSpan(t *testing.T) {
	n, s := &notes{}, &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.Tracer = n
	k := start(t, cfg)
	send := func() error {
		h := record.Headers{{Key: "a", Value: []byte("1")}, {Key: "of", Value: []byte("sender")}, {Key: "state", Value: []byte("2")}}
		r := &record.Raw{Key: []byte("k"), Headers: h}
		err := s.host.Output("out").Send(r, 0)
		if len(r.Headers) != 3 || string(r.Headers[1].Value) != "sender" {
			t.Error("the processor's record was changed:", r.Headers)
		}
		return err
	}
	s.process = func(string, *record.Raw) error { return send() }
	s.flush = send
	k.Add(batch(tp("in", 0), 0, 1))
	if _, err := k.Process(now, 10); err != nil {
		t.Fatal(err)
	}
	u, err := k.Prepare(now)
	if err != nil || len(u.Spans) != 1 {
		t.Fatal(err, u)
	}
	var got []string
	for _, r := range out.Log[tp("out", 0)] {
		got = append(got, fmt.Sprintf("%s", r.Headers))
	}
	if want := []string{"[{a 1} {of span}]", "[{a 1} {of sender} {state 2}]"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// What tracing costs a record that is passed on: off; on, by a tracer that does nothing.
func BenchmarkTracing(b *testing.B) {
	for name, tracer := range map[string]task.Tracer{"off": nil, "on": idle{}} {
		b.Run(name, func(b *testing.B) {
			var o topology.Output
			s := &script{process: func(_ string, r *record.Raw) error { return o.Send(r, 0) }}
			state, _ := newPorts()
			cfg := config(s, state, &sink{})
			cfg.Tracer = tracer
			k := start(b, cfg)
			o = s.host.Output("out")
			in := batch(tp("in", 0), 0, make([]int64, 1000)...)
			for i := range in.Records {
				in.Records[i].Headers = record.Headers{{Key: "traceparent", Value: make([]byte, 55)}}
			}
			b.ReportAllocs()
			for b.Loop() {
				k.Add(in)
				if n, err := k.Process(now, 1000); n != 1000 || err != nil {
					b.Fatal(n, err)
				}
				in.From, in.Next = in.Next, in.Next+1000
				for i := range in.Records {
					in.Records[i].Offset += 1000
				}
				k.Credits(func(record.TopicPartition, int) {})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/record")
		})
	}
}

type idle struct{}

func (idle) Batch(record.TaskID, []record.TopicPartition) task.Span { return idle{} }
func (idle) Context() context.Context                               { return context.Background() }
func (idle) Headers() record.Headers                                { return nil }
func (idle) Take(record.TopicPartition, *record.Raw)                {}
func (idle) Answered(error, topology.Response)                      {}
func (idle) End(int, error)                                         {}
