//go:build realkafka

package realkafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// application is a word count on a broker: its topics, and what has been written to them.
type application struct {
	t      *testing.T
	broker string
	name   string
	words  []string
	truth  map[string]int64
	random *rand.Rand
}

func newApplication(t *testing.T, broker, name string) *application {
	t.Helper()
	a := &application{t: t, broker: broker, name: name, truth: map[string]int64{}, random: rand.New(rand.NewPCG(3, 7))}
	for i := range 200 {
		a.words = append(a.words, string([]byte{'a' + byte(i/26), 'a' + byte(i%26), 'q'}))
	}
	createTopics(t, []string{broker}, work.Partitions, name+"-lines", name+"-word-counts")
	return a
}

func createTopics(t *testing.T, brokers []string, partitions int32, names ...string) {
	t.Helper()
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	var specs []kafka.TopicSpec
	for _, name := range names {
		specs = append(specs, kafka.TopicSpec{Name: name, Partitions: partitions, Replication: -1})
	}
	if err := admin.CreateTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

// write puts records into a topic, by partition; they are acknowledged when it returns.
func write(t *testing.T, broker, topic string, records map[int32][]record.Raw) {
	t.Helper()
	client := wire.New([]string{broker})
	defer client.Close()
	for p, batch := range records {
		w, err := client.NewProducer(t.Context(), record.TopicPartition{Topic: topic, Partition: p})
		for part := range slices.Chunk(batch, 1_000) {
			if err == nil {
				err = w.Write(t.Context(), part)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// feed writes n lines of ten words, acknowledged when it returns, and adds them to the truth.
func (a *application) feed(n int) {
	a.t.Helper()
	fed := map[int32][]record.Raw{}
	for i := range n {
		var line bytes.Buffer
		for range 10 {
			word := a.words[a.random.IntN(len(a.words))]
			a.truth[word]++
			line.WriteString(word + " ")
		}
		p := int32(i % work.Partitions)
		fed[p] = append(fed[p], record.Raw{Value: line.Bytes(), Timestamp: time.Now().UnixMilli()})
	}
	write(a.t, a.broker, a.name+"-lines", fed)
}

// counts asks the processes for every word; each word is answered by the one that has it.
func (a *application) counts(ctx context.Context, processes ...*process) (map[string]int64, error) {
	got := map[string]int64{}
	for _, word := range a.words {
		var errs []error
		for _, p := range processes {
			n, err := p.count(ctx, word)
			if err == nil {
				got[word] = n
				break
			}
			errs = append(errs, err)
		}
		if len(errs) == len(processes) {
			return nil, fmt.Errorf("%s: %w", word, errors.Join(errs...))
		}
	}
	return got, nil
}

// awaitTruth waits until every count is what was fed. With atLeast, a count may also be higher, because what a killed
// process had not committed is processed again; how much higher is logged.
func (a *application) awaitTruth(atLeast bool, processes ...*process) {
	a.t.Helper()
	var extra int64
	await(a.t, "the counts are right", func(ctx context.Context) error {
		got, err := a.counts(ctx, processes...)
		if err != nil {
			return err
		}
		extra = 0
		for word, want := range a.truth {
			if got[word] < want {
				return fmt.Errorf("%s is %d and should be %d", word, got[word], want)
			}
			extra += got[word] - want
		}
		return nil
	})
	if extra > 0 && !atLeast {
		a.t.Errorf("nothing failed, and yet %d words were counted twice", extra)
	}
	if atLeast {
		a.t.Logf("%d words of %d were counted again", extra, a.total())
	}
}

func (a *application) total() (n int64) {
	for _, c := range a.truth {
		n += c
	}
	return n
}

// awaitSome waits until something, but not yet all, has been counted, so that what comes next comes in the middle.
func (a *application) awaitSome(p *process) {
	a.t.Helper()
	await(a.t, "some words are counted", func(ctx context.Context) error {
		n, err := p.count(ctx, a.words[0])
		if err == nil && n == 0 {
			err = errors.New("none yet")
		}
		return err
	})
	n, err := p.count(context.Background(), a.words[0])
	if err != nil || n >= a.truth[a.words[0]] {
		a.t.Fatalf("the fault would come too late: %s is at %d of %d already (%v); feed more", a.words[0], n, a.truth[a.words[0]], err)
	}
}
