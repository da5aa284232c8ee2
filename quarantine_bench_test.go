package millrace_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// BenchmarkOthersInQuarantine measures how fast three tasks of a thread are while the fourth is in quarantine, against the
// same three a moment before: a window each, in turn, on one backlog. ratio is the median of with ÷ without. Offsets that the
// group has count, so what is taken back does not.
//
//	go test -run '^$' -bench OthersInQuarantine -benchtime 5x .
func BenchmarkOthersInQuarantine(b *testing.B) {
	for _, c := range []struct {
		name   string
		policy thread.QuarantinePolicy
		window time.Duration
	}{
		// The first tries come close to each other, so a window has to be longer than they are apart.
		{"default policy", thread.QuarantinePolicy{First: 100 * time.Millisecond, Cap: time.Minute}, 6 * time.Second},
		{"a try every second", thread.QuarantinePolicy{First: time.Second, Cap: time.Second}, 3 * time.Second},
		{"a try every 100 ms", thread.QuarantinePolicy{First: 100 * time.Millisecond, Cap: 100 * time.Millisecond}, time.Second},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, window := c.policy, c.window
			c := cluster(b)
			var cured atomic.Bool
			n := start(b, callback(b, laborious(poisoned(&cured))), onto(b, c, millrace.WithQuarantine(p))...)
			r := newRace(b, c)
			defer r.end()
			r.awaitBacklog()
			var ratios, with []float64
			for b.Loop() {
				cured.Store(false)
				alone := r.window(window)
				feed(b, c, "fail")
				awaitQuarantine(b, n, 2)
				in := r.window(window)
				cured.Store(true)
				if err := n.RetryTask(b.Context(), first); err != nil {
					b.Fatal(err)
				}
				ratios, with = append(ratios, in/alone), append(with, in)
			}
			slices.Sort(ratios)
			slices.Sort(with)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(with[len(with)/2], "records/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// laborious makes a record cost some 20 microseconds, so that the loop is what a window measures and not the broker, which
// has to share this process.
func laborious(f func(string) error) func(string) error {
	var x atomic.Uint64
	return func(line string) error {
		n := uint64(len(line))
		for range 20_000 {
			n = n*0x9e3779b97f4a7c15 + 1
		}
		x.Store(n)
		return f(line)
	}
}

// race is the backlog of three partitions and how far the group is in it.
type race struct {
	b     *testing.B
	admin *kafka.Admin
	tps   []record.TopicPartition
	fed   atomic.Int64
	stop  context.CancelFunc
	ended chan struct{}
}

// backlogMin is how many records wait at least when a window begins.
const backlogMin = 20_000

func newRace(b *testing.B, c *embedded.Cluster) *race {
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	w := newWriter(b, c, "")
	ctx, stop := context.WithCancel(b.Context())
	r := &race{b: b, admin: admin, stop: stop, ended: make(chan struct{})}
	for p := range int32(3) {
		r.tps = append(r.tps, record.TopicPartition{Topic: "lines", Partition: p + 1})
	}
	go func() {
		defer close(r.ended)
		r.feed(ctx, w)
	}()
	return r
}

func (r *race) end() {
	r.stop()
	<-r.ended
	r.admin.Close()
}

// feed keeps the backlog up.
func (r *race) feed(ctx context.Context, w *writer) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for token := uint64(1); ctx.Err() == nil; token++ {
		if r.fed.Load()-r.committed() > 5*backlogMin {
			<-ticker.C
			continue
		}
		for i := range 3000 {
			if err := w.Append(r.tps[i%3], &record.Raw{Value: []byte("x")}); err != nil {
				r.b.Error(err)
				return
			}
		}
		w.Flush(token)
		e := <-w.events
		if f, ok := e.(broker.Flushed); !ok || f.Err != nil || len(f.Refused) > 0 {
			r.b.Errorf("%+v", e)
			return
		}
		r.fed.Add(3000)
	}
}

// committed is how many records the group has committed.
func (r *race) committed() (n int64) {
	at, err := r.admin.CommittedOffsets(context.Background(), "app", r.tps)
	if err != nil {
		r.b.Error(err)
	}
	for _, o := range at {
		n += max(o.At, 0)
	}
	return n
}

func (r *race) awaitBacklog() {
	r.b.Helper()
	await(r.b.Context(), r.b, func() bool { return r.fed.Load()-r.committed() > backlogMin }, func() string { return fmt.Sprint(r.fed.Load(), " fed") })
}

// window is how many records per second are committed.
func (r *race) window(window time.Duration) float64 {
	r.b.Helper()
	r.awaitBacklog()
	from, began := r.committed(), time.Now()
	<-time.After(window)
	n, took := r.committed()-from, time.Since(began)
	if left := r.fed.Load() - r.committed(); left < backlogMin/10 {
		r.b.Errorf("only %d records were left: the window has measured who feeds", left)
	}
	return float64(n) / took.Seconds()
}
