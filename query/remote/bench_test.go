package remote_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
)

// BenchmarkGet is single point reads from another actor system over loopback, node and callers in one process: the wire and
// the gate, with a store that has nothing to look up. Many callers share one connection.
func BenchmarkGet(b *testing.B) {
	r := start(b, 1, answers)
	for _, way := range []struct{ name, scheme string }{{"pid", ""}, {"http", "http://"}} {
		c := dial(b, way.scheme, []string{r.Address()})
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/callers=%d", way.name, callers), func(b *testing.B) {
				b.SetParallelism(max(1, callers/2)) // times GOMAXPROCS, which is 2 where this is measured
				b.ReportAllocs()
				before := cpu(b)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if v, _, err := query.Get(b.Context(), c, counts, "word", query.Partition(0)); v != "word" || err != nil {
							b.Error(v, err)
							return
						}
					}
				})
				// On a machine that others use, this tells what an idle one could do.
				b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
			})
		}
	}
}

// cpu is the processor time of this process, node and callers together.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
