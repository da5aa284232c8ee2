package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Result is one run of one system.
type Result struct {
	// ToRunningS is the time from the start of the system to RUNNING, 0 where there is no such state.
	ToRunningS float64 `json:"to_running_s"`
	// Records were read from the input, Counted by the second stage of a job that has one, Outputs written.
	Records int64 `json:"records"`
	Counted int64 `json:"counted"`
	Outputs int64 `json:"outputs"`
	// Seconds and CPUS are elapsed time and CPU time, see the package comment.
	Seconds float64 `json:"seconds"`
	CPUS    float64 `json:"cpu_s"`
	// PeakMiB is the largest resident set that the process ever had; 0 where the system does not tell.
	PeakMiB int64 `json:"peak_mib"`
	// Objects and Bytes are what was allocated on the heap meanwhile; 0 where the system does not tell.
	Objects int64 `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	// RestoreS is the time from the first store that began to be restored to the last that was; 0 if none was.
	RestoreS float64 `json:"restore_s,omitempty"`
	// BlockedS is how long its threads stood still for commits, by each thread; 0 where the system does not tell.
	BlockedS float64 `json:"blocked_s,omitempty"`
	// UnderLoad and AtRest are point reads while the job ran and after it, Kept the share of its speed, in per cent, that it
	// had while it was read from; absent where nothing is read.
	UnderLoad *Latency `json:"under_load,omitempty"`
	AtRest    *Latency `json:"at_rest,omitempty"`
	Kept      float64  `json:"kept_percent,omitempty"`
}

// Write prints the result as one line.
func (r Result) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Counter is added to by one goroutine and read by Watch; the padding keeps two of them off one cache line.
type Counter struct {
	n atomic.Int64
	_ [56]byte
}

// Add counts n more.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Sum is the total of some counters. Its zero value is empty; New may be called at any time from any goroutine.
type Sum struct{ counters atomic.Pointer[[]*Counter] }

// New adds a counter to the sum.
func (s *Sum) New() *Counter {
	c := &Counter{}
	for {
		old := s.counters.Load()
		var all []*Counter
		if old != nil {
			all = append(all, *old...)
		}
		all = append(all, c)
		if s.counters.CompareAndSwap(old, &all) {
			return c
		}
	}
}

// Load is the total.
func (s *Sum) Load() (total int64) {
	if all := s.counters.Load(); all != nil {
		for _, c := range *all {
			total += c.n.Load()
		}
	}
	return total
}

// Progress is what a system has done so far.
type Progress struct{ Seen, Counted, Outputs Sum }

// mark is what had been used at some moment.
type mark struct {
	at             time.Time
	cpu            time.Duration
	objects, bytes int64
}

func markNow(at time.Time) mark {
	objects, bytes := Allocated()
	return mark{at, CPU(), objects, bytes}
}

// Watch waits for the first record, and then until records were seen, counted were counted, and nothing has moved for
// half a second. If stop is not nil, it ends when stop is closed instead, whatever was seen. Its error is the context's.
func (p *Progress) Watch(ctx context.Context, records, counted int64, stop <-chan struct{}) (Result, error) {
	const quiet = 500 * time.Millisecond
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var first mark
	var last time.Time
	before := int64(0)
	for {
		select {
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-stop:
			return p.result(first, last), nil
		case <-tick.C:
		}
		seen, second, out := p.Seen.Load(), p.Counted.Load(), p.Outputs.Load()
		switch now := time.Now(); {
		case seen == 0:
		case first.at.IsZero():
			first, last, before = markNow(now), now, seen+second+out
		case seen+second+out != before:
			last, before = now, seen+second+out
		case stop == nil && seen >= records && second >= counted && now.Sub(last) > quiet:
			return p.result(first, last), nil
		}
	}
}

// result is what was seen and used since first; what was used before the first record is not counted, and nothing is if
// there was none.
func (p *Progress) result(first mark, last time.Time) Result {
	r := Result{Records: p.Seen.Load(), Counted: p.Counted.Load(), Outputs: p.Outputs.Load(), PeakMiB: PeakMiB()}
	if first.at.IsZero() {
		return r
	}
	now := markNow(time.Now())
	r.Seconds, r.CPUS = last.Sub(first.at).Seconds(), (now.cpu - first.cpu).Seconds()
	r.Objects, r.Bytes = now.objects-first.objects, now.bytes-first.bytes
	return r
}

// Allocated is how many objects and bytes this process has allocated on its heap so far.
func Allocated() (objects, bytes int64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64()), int64(samples[2].Value.Uint64())
}

// CPU is the CPU time of this process so far, user and system.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PeakMiB is the high-water mark of this process's resident set. Getrusage has one too, but a child's starts at its parent's.
func PeakMiB() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		return 0
	}
	return n / 1024
}

// Await waits until the sum has reached n. Its error is the context's cause.
func (s *Sum) Await(ctx context.Context, n int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Load() < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Pause waits; not at all if d is not positive. Its error is the context's cause.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Parse reads what Write has printed.
func Parse(line string) (r Result, err error) {
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("%q is not a measurement: %w", line, err)
	}
	return r, nil
}
