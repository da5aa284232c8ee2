package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/record"
)

const (
	// feedEvery is how often each partition gets a batch.
	feedEvery = 50 * time.Millisecond
	// feedLimit is how long a batch may take: a leader's fail-over takes ten seconds.
	feedLimit   = 90 * time.Second
	lineWords   = 4
	wordCount   = 120
	keysPerPart = 30
	// late is by how much a record's timestamp may be behind the one before it, in milliseconds.
	late = 50
)

// feeder writes inputs to both topics, each partition by a goroutine of its own, and keeps books of what it wrote.
type feeder struct {
	rate    int
	seed    uint64
	brokers []string
	fed     atomic.Int64
	stopped chan struct{}
	failed  chan error
	done    sync.WaitGroup
	columns []*column
}

// column is one partition of one input topic. Its goroutine owns it until the feeder has been stopped.
type column struct {
	job    job
	tp     record.TopicPartition
	random *rand.Rand
	number int
	books  []oracle.Input
}

func newFeeder(brokers []string, seed uint64, rate int) *feeder {
	f := &feeder{rate: rate, seed: seed, brokers: brokers, stopped: make(chan struct{}), failed: make(chan error, len(jobs)*partitions)}
	for i, j := range jobs {
		for p := range int32(partitions) {
			f.columns = append(f.columns, &column{job: j, tp: record.TopicPartition{Topic: j.input, Partition: p},
				random: rand.New(rand.NewPCG(seed, uint64(i*partitions)+uint64(p)))})
		}
	}
	return f
}

func (f *feeder) start(ctx context.Context) {
	for _, c := range f.columns {
		f.done.Go(func() {
			if err := f.feed(ctx, c); err != nil {
				f.failed <- fmt.Errorf("the feeder of %s: %w", c.tp, err)
			}
		})
	}
}

// stop returns when the last batch is in the log and the books are complete.
func (f *feeder) stop() error {
	close(f.stopped)
	f.done.Wait()
	select {
	case err := <-f.failed:
		return err
	default:
		return nil
	}
}

func (f *feeder) feed(ctx context.Context, c *column) error {
	client := wire.New(f.brokers)
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, feedLimit)
	producer, err := client.NewProducer(limited, c.tp)
	cancel()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-f.stopped:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if err := f.batch(ctx, c, producer); err != nil {
			return err
		}
	}
}

// batch writes as many records as keep the rate on average, none at times.
func (f *feeder) batch(ctx context.Context, c *column, producer *wire.Producer) error {
	mean := float64(f.rate) * feedEvery.Seconds() / float64(len(f.columns))
	n := batchSize(c.random, mean)
	if n == 0 {
		return nil
	}
	var records []record.Raw
	var inputs []oracle.Input
	for range n {
		in := c.next(time.Now().UnixMilli())
		inputs = append(inputs, in)
		records = append(records, c.raw(in))
	}
	ctx, cancel := context.WithTimeout(ctx, feedLimit)
	defer cancel()
	if err := producer.Write(ctx, records); err != nil {
		return err
	}
	c.books = append(c.books, inputs...)
	f.fed.Add(int64(n))
	return nil
}

// batchSize is a number from 0 up to about twice the mean.
func batchSize(random *rand.Rand, mean float64) int {
	return int(mean*2*random.Float64() + random.Float64())
}

// next makes up an input.
func (c *column) next(now int64) oracle.Input {
	c.number++
	in := oracle.Input{ID: fmt.Sprintf("%s-%d-%d", c.job.name, c.tp.Partition, c.number), Partition: c.tp.Partition, Timestamp: now - c.random.Int64N(late)}
	if c.job.rich {
		in.Adds = []oracle.Add{{Key: c.key(), Amount: 1 + c.random.Int64N(1000)}}
		return in
	}
	for range lineWords {
		in.Adds = append(in.Adds, oracle.Add{Key: fmt.Sprintf("word%d", c.random.IntN(wordCount)), Amount: 1})
	}
	return in
}

// key is a key that belongs into the column's partition, as any producer with Kafka's partitioner would see it.
func (c *column) key() string {
	for {
		key := fmt.Sprintf("key%d", c.random.IntN(partitions*keysPerPart))
		if record.Partition([]byte(key), partitions) == c.tp.Partition {
			return key
		}
	}
}

func (c *column) raw(in oracle.Input) record.Raw {
	r := record.Raw{Timestamp: in.Timestamp, Headers: record.Headers{{Key: idHeader, Value: []byte(in.ID)}}}
	if c.job.rich {
		r.Key = []byte(in.Adds[0].Key)
		r.Value, _ = json.Marshal(amount{in.ID, in.Adds[0].Amount}) // a string and a number can always be written
		return r
	}
	var text strings.Builder
	for i, a := range in.Adds {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(a.Key)
	}
	r.Value = []byte(text.String())
	return r
}

// books are what was written, of one job. The feeder must have been stopped.
func (f *feeder) books(j job) (all []oracle.Input) {
	for _, c := range f.columns {
		if c.job.name == j.name {
			all = append(all, c.books...)
		}
	}
	return all
}
