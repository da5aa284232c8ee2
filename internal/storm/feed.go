package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/record"
)

// feedEvery is how often each partition gets a batch.
const feedEvery = 50 * time.Millisecond

// feedLimit is how long a batch may take.
const feedLimit = time.Minute

// feeder writes each input partition by a goroutine of its own, and the history of it.
type feeder struct {
	brokers []string
	rate    int
	seed    uint64
	history *history
	keys    [partitions][]string
	failed  chan error
	stopped chan struct{}
	done    sync.WaitGroup
}

func newFeeder(brokers []string, s settings, h *history) *feeder {
	return &feeder{brokers: brokers, rate: s.rate, seed: s.seed, history: h, keys: keysOf(), failed: make(chan error, partitions), stopped: make(chan struct{})}
}

func (f *feeder) start(ctx context.Context) {
	for p := range int32(partitions) {
		f.done.Go(func() {
			if err := f.feed(ctx, p); err != nil {
				f.failed <- fmt.Errorf("the feeder of %s-%d: %w", inputTopic, p, err)
			}
		})
	}
}

func (f *feeder) stop() {
	close(f.stopped)
	f.done.Wait()
}

func (f *feeder) feed(ctx context.Context, p int32) error {
	client := wire.New(f.brokers)
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, feedLimit)
	producer, err := client.NewProducer(limited, record.TopicPartition{Topic: inputTopic, Partition: p})
	cancel()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(f.seed, uint64(p)))
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-f.stopped:
			return nil
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := f.batch(ctx, p, producer, random); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// silent is every other second of a partition, half of them at a time: nothing that comes then is counted, so positions move
// on while no store changes and no changelog is written.
func silent(p int32, now time.Time) bool { return (now.Unix()+int64(p))%2 == 0 }

func (f *feeder) batch(ctx context.Context, p int32, producer *wire.Producer, random *rand.Rand) error {
	var keys []string
	var records []record.Raw
	value := []byte{counted}
	if silent(p, time.Now()) {
		value = []byte{dropped}
	}
	for range 1 + int(float64(f.rate)*feedEvery.Seconds()/partitions*2*random.Float64()) {
		key := f.keys[p][random.IntN(keysPerPart)]
		records = append(records, record.Raw{Key: []byte(key), Value: value, Timestamp: time.Now().UnixMilli()})
		if value[0] == dropped {
			key = "" // it takes an offset and changes nothing
		}
		keys = append(keys, key)
	}
	f.history.add(p, keys...)
	ctx, cancel := context.WithTimeout(ctx, feedLimit)
	defer cancel()
	return producer.Write(ctx, records)
}
