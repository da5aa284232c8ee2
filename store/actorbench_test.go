package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// asked is a handle of the store "counts"; keys are bytes, so that what is measured is not a codec.
type asked struct{}

func (asked) StoreName() string              { return "counts" }
func (asked) StoreKind() string              { return "key-value" }
func (asked) KeyCodec() codec.Codec[[]byte]  { return keyCodec }
func (asked) ValueCodec() codec.Codec[int64] { return codec.Int64 }

var keyCodec codec.Codec[[]byte] = named{codec.Bytes, "string"}

// named is a codec under another name.
type named struct {
	codec.Codec[[]byte]
	name string
}

func (n named) Name() string { return n.name }

// node is everything between a typed client and the engine: a router, gates, store actors and their states.
type node struct {
	*router.Router
	states []*TaskState
}

const benchPartitions = 4

// newNode fills a store with n keys over four partitions, on disk.
func newNode(b *testing.B, n int) (*node, [][]byte) {
	return behind(b, router.New(system(), fmt.Sprintf("bench-%d-%s", time.Now().UnixNano(), b.Name()), router.Options{}), n)
}

// behind is newNode behind a router.
func behind(b testing.TB, front *router.Router, n int) (*node, [][]byte) {
	d, err := OpenDirectory(b.TempDir(), "app", DirectoryOptions{CacheBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	r := &node{Router: front}
	r.Declare([]router.StoreInfo{{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "int64"}})
	r.SetPartitions("counts", benchPartitions)
	r.Node(lifecycle.NodeRebalancing)
	r.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadRunning})
	units := make([]Unit, benchPartitions)
	keys := make([][]byte, n)
	for i := range n {
		keys[i] = fmt.Appendf(nil, "word-%08d", i)
		u := &units[record.Partition(keys[i], benchPartitions)]
		u.Writes = append(u.Writes, Write{Key: keys[i], Value: binary.BigEndian.AppendUint64(nil, uint64(i)), Timestamp: int64(i)})
	}
	for p := range int32(benchPartitions) {
		spec := testSpec()
		spec.ID.Partition, spec.Partition = p, p
		s, _ := openTask(b, d, spec)
		apply(b, s, &units[p])
		if err := s.Flush(); err != nil {
			b.Fatal(err)
		}
		r.states = append(r.states, s)
		pid := system().Root.Spawn(NewActorProps(s, 0, actors.Hardened(func(any) any { return nil })...))
		b.Cleanup(func() { _ = system().Root.StopFuture(pid).Wait() })
		r.Opening("counts", p, "thread-1", 1)
		r.Serving("counts", p, pid, 1)
	}
	r.Node(lifecycle.NodeRunning)
	b.Cleanup(func() { closeDir(b, d) })
	return r, keys
}

// raw reads a key as a program would that has nothing but the engine.
func (n *node) raw(buf, key []byte) ([]byte, error) {
	s := n.states[record.Partition(key, benchPartitions)]
	v, closer, err := s.engine.db.Get(appendKey(buf[:0], s.numbers[0], key))
	if err != nil {
		return nil, err
	}
	return v, closer.Close()
}

const manyKeys = 2_000_000

// BenchmarkQueries measures, in one run, what the store actor costs: each read beside the engine's own. It prints the
// median of a Get and the ratios of GetMany and of a scan to what the engine does alone.
func BenchmarkQueries(b *testing.B) {
	n, keys := newNode(b, manyKeys)
	ctx := context.Background()
	b.Run("Get", func(b *testing.B) { benchGet(b, ctx, n, keys) })
	b.Run("GetWhileCommitting", func(b *testing.B) { benchGetWhileCommitting(b, ctx, n, keys) })
	b.Run("GetMany100", func(b *testing.B) { benchGetMany(b, ctx, n, keys) })
	b.Run("Scan", func(b *testing.B) { benchScan(b, ctx, n) })
}

func benchGet(b *testing.B, ctx context.Context, n *node, keys [][]byte) {
	took, raw := make([]time.Duration, 0, 1<<20), make([]time.Duration, 0, 1<<20)
	var buf [64]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		if _, err := n.raw(buf[:], keys[(i+len(keys)/2)*7919%len(keys)]); err != nil {
			b.Fatal(err)
		}
		raw = append(raw, time.Since(begin))
		begin = time.Now()
		_, ok, err := query.Get(ctx, n, asked{}, keys[i*7919%len(keys)])
		took = append(took, time.Since(begin))
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
	slices.Sort(took)
	slices.Sort(raw)
	b.ReportMetric(float64(raw[len(raw)/2].Nanoseconds())/1e3, "raw-p50-µs")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
	b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds())/1e3, "p99.9-µs")
	b.ReportMetric(float64(took[len(took)/2])/float64(raw[len(raw)/2]), "×raw-p50")
}

// benchGetWhileCommitting is benchGet while one goroutine commits units of some 5,000 keys to one of the partitions without a
// pause.
func benchGetWhileCommitting(b *testing.B, ctx context.Context, n *node, keys [][]byte) {
	stop, stopped := make(chan struct{}), make(chan error)
	commits := 0
	go func() {
		defer close(stopped)
		for at := int64(0); ; commits++ {
			select {
			case <-stop:
				return
			default:
			}
			u := &Unit{}
			for i := range 20_000 {
				u.Writes = append(u.Writes, Write{Key: keys[(commits*20_000+i)%len(keys)], Value: binary.BigEndian.AppendUint64(nil, uint64(at)), Timestamp: at})
			}
			u.Writes = slices.DeleteFunc(u.Writes, func(w Write) bool { return record.Partition(w.Key, benchPartitions) != 0 })
			if err := n.states[0].Apply(u); err != nil {
				stopped <- err
				return
			}
		}
	}()
	benchGet(b, ctx, n, keys)
	close(stop)
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(commits)/b.Elapsed().Seconds(), "commits/s")
}

// benchGetMany takes turns, so that a slow moment of the machine falls on both.
func benchGetMany(b *testing.B, ctx context.Context, n *node, keys [][]byte) {
	const many = 100
	var ours, raw time.Duration
	asks := make([][]byte, many)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := range asks {
			asks[j] = keys[(i*many+j)*7919%len(keys)]
		}
		// The second half of the loop's keys are others, or the first reader would warm the cache for the second.
		begin := time.Now()
		results, err := query.GetMany(ctx, n, asked{}, asks)
		ours += time.Since(begin)
		if err != nil || len(results) != many || !results[many-1].Found {
			b.Fatal(len(results), err)
		}
		for j := range asks {
			asks[j] = keys[(i*many+j+len(keys)/2)*7919%len(keys)]
		}
		begin = time.Now()
		if err := n.rawMany(asks); err != nil {
			b.Fatal(err)
		}
		raw += time.Since(begin)
	}
	b.ReportMetric(100*float64(raw)/float64(ours), "%-of-raw")
	b.ReportMetric(float64(raw.Microseconds())/float64(b.N), "raw-µs/op")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "ours-µs/op")
}

// rawMany reads keys with one goroutine for each processor.
func (n *node) rawMany(keys [][]byte) error {
	var wg sync.WaitGroup
	readers := runtime.GOMAXPROCS(0)
	errs := make([]error, readers)
	for r := range readers {
		wg.Go(func() {
			var buf [64]byte
			for _, k := range keys[r*len(keys)/readers : (r+1)*len(keys)/readers] {
				v, err := n.raw(buf[:], k)
				if errs[r] = err; err != nil || len(v) == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// benchScan reads the whole store, in turn through the client and with iterators of the engine's own over the same keys,
// which visits them (%-of-raw), or copies each key and value as whoever keeps them has to (%-of-copying). What the client
// delivers is decoded, and is the caller's. The fastest round of each counts, so that what else the machine does falls out.
func benchScan(b *testing.B, ctx context.Context, n *node) {
	ours, raw, copying := time.Hour, time.Hour, time.Hour
	b.ReportAllocs()
	timed := func(into *time.Duration, read func() (int, error)) int {
		begin := time.Now()
		entries, err := read()
		*into = min(*into, time.Since(begin))
		if err != nil {
			b.Fatal(err)
		}
		return entries
	}
	for b.Loop() {
		one := timed(&ours, func() (entries int, err error) {
			for _, err := range query.All(ctx, n, asked{}) {
				if err != nil {
					return entries, err
				}
				entries++
			}
			return entries, nil
		})
		two := timed(&raw, func() (int, error) { return n.rawScan(func(b []byte) []byte { return b }) })
		three := timed(&copying, func() (int, error) { return n.rawScan(slices.Clone[[]byte]) })
		if one != manyKeys || two != manyKeys || three != manyKeys {
			b.Fatal(one, two, three)
		}
	}
	perEntry := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / manyKeys }
	b.ReportMetric(100*float64(raw)/float64(ours), "%-of-raw")
	b.ReportMetric(100*float64(copying)/float64(ours), "%-of-copying")
	b.ReportMetric(perEntry(ours), "ours-ns/entry")
	b.ReportMetric(perEntry(raw), "raw-ns/entry")
}

// kept makes sure that what rawScan reads is read.
var kept Entry

// rawScan reads the partitions one after the other.
func (n *node) rawScan(keep func([]byte) []byte) (entries int, err error) {
	for _, s := range n.states {
		read, err := s.rawScan(keep)
		if entries += read; err != nil {
			return entries, err
		}
	}
	return entries, nil
}

// rawScan reads a whole store as a program would that has nothing but the engine. keep is called with each key and value.
func (t *TaskState) rawScan(keep func([]byte) []byte) (n int, err error) {
	lower, upper := prefixes(t.numbers[0])
	it, err := t.engine.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, err
		}
		if kept = (Entry{Key: keep(it.Key()), Value: keep(value)}); len(kept.Value) > 0 {
			n++
		}
	}
	return n, errors.Join(it.Error(), it.Close())
}
