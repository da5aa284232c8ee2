package raw

import (
	"errors"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// dial connects to a broker of the test's own.
func dial(t *testing.T) *Client {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := Dial(c.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Every job that has a ceiling gives the right answer, under both guarantees, with every update and without.
func TestCeilingsAnswerRight(t *testing.T) {
	client := dial(t)
	const n = 500
	filled := map[string]bool{}
	for _, job := range work.Jobs {
		if job.Course != work.Steady || job.Name == "many" || job.Name == "large" {
			continue
		}
		if !filled[job.Input.Topic] {
			filled[job.Input.Topic] = true
			if err := client.Fill(job.Input, n); err != nil {
				t.Fatal(err)
			}
		}
		variants, err := job.Variants([]string{"at_least_once", "exactly_once"}, []string{"on", "off"})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range variants {
			t.Run(v.Key(), func(t *testing.T) { answers(t, client, v, job.Name+string(rune('a'+i)), n) })
		}
	}
}

func answers(t *testing.T, client *Client, j work.Job, app string, n int) {
	if err := client.Create(app+"-out", j.Input.Partitions); err != nil {
		t.Fatal(err)
	}
	var p measure.Progress
	err := client.Run(t.Context(), Ceiling{Does: j.Does, In: j.Input.Topic, Out: app + "-out", App: app, ExactlyOnce: j.Guarantee == "exactly_once",
		EveryUpdate: j.Uncached, Compression: j.Input.Compression}, &p)
	if err != nil {
		t.Fatal(err)
	}
	got := j.Empty(n)
	outputs := int64(0)
	err = client.Read(app+"-out", func(_ int32, key, value []byte) error { outputs++; return got.Take(key, value) })
	if err != nil {
		t.Fatal(err)
	}
	want, err := j.Expected(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Compare(want); err != nil {
		t.Error(err)
	}
	if p.Seen.Load() != int64(n) || p.Counted.Load() != int64(j.Counted(n)) || p.Outputs.Load() != outputs {
		t.Errorf("it says %d seen, %d counted, %d written, and wrote %d", p.Seen.Load(), p.Counted.Load(), p.Outputs.Load(), outputs)
	}
	if j.Uncached && outputs != int64(n*j.PerRecord()) {
		t.Errorf("%d outputs, want one for each of the updates", outputs)
	}
	all := int64(0) // at least once, nobody asks for them
	if j.Guarantee == "exactly_once" {
		all = int64(n)
	}
	if committed, err := client.Committed(app, j.Input.Topic, j.Input.Partitions); err != nil || committed != all {
		t.Errorf("%d records are committed, want %d: %v", committed, all, err)
	}
}

// What was read is committed also if nothing came of it.
func TestOffsetsWithoutOutputsAreCommitted(t *testing.T) {
	client := dial(t)
	in := work.Jobs[0].Input
	if err := errors.Join(client.Fill(in, 10), client.Create("out", in.Partitions)); err != nil {
		t.Fatal(err)
	}
	job := Ceiling{In: in.Topic, Out: "out", App: "app", ExactlyOnce: true}
	if err := client.stateless(t.Context(), job, new(measure.Progress), func(*sarama.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Committed("app", in.Topic, in.Partitions); n != 10 || err != nil {
		t.Errorf("%d records are committed, want 10: %v", n, err)
	}
}

// An aborted transaction is hidden from its first batch to its marker; the same producer's next is not, nor another's.
func TestAbortedBatchesAreHidden(t *testing.T) {
	a := abortions{ahead: []*sarama.AbortedTransaction{{ProducerID: 2, FirstOffset: 30}, {ProducerID: 1, FirstOffset: 10}}}
	for _, test := range []struct {
		at, producer  int64
		control, hide bool
	}{
		{at: 0, producer: 1}, {at: 5, producer: 1, control: true}, {at: 10, producer: 1, hide: true}, {at: 20, producer: 2}, {at: 21, producer: 1, hide: true},
		{at: 22, producer: 2, control: true}, {at: 23, producer: 1, control: true, hide: true}, {at: 24, producer: 1}, {at: 30, producer: 2, hide: true}, {at: 31, producer: 3},
	} {
		b := &sarama.RecordBatch{FirstOffset: test.at, ProducerID: test.producer, Control: test.control, IsTransactional: true}
		if a.hide(b) != test.hide {
			t.Errorf("the batch at %d of producer %d: hidden is %t", test.at, test.producer, !test.hide)
		}
	}
}
