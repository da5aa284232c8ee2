package millrace_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/store"
)

// failingDisk is the disk, on which writes fail for as long as it is told so. It counts them.
type failingDisk struct {
	fs      vfs.FS
	fails   atomic.Bool
	refused atomic.Int64
}

// newFailingDisk makes one; refuse gives a write its error, or nil if it is none of those that fail.
func newFailingDisk(refuse func(errorfs.Op) error) *failingDisk {
	d := &failingDisk{}
	d.fs = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !d.fails.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		err := refuse(op)
		if err != nil {
			d.refused.Add(1)
		}
		return err
	}))
	return d
}

// option has a node keep its state there.
func (d *failingDisk) option(patience time.Duration) millrace.Option {
	return millrace.WithDirectory(func(o *store.DirectoryOptions) {
		o.FS, o.FlushInterval, o.ErrorPatience, o.SpaceRetry = d.fs, time.Millisecond, patience, 5*time.Millisecond
	})
}

// tablesOf refuses the tables of what has a part of their path.
func tablesOf(part string) func(errorfs.Op) error {
	return func(op errorfs.Op) error {
		if !strings.Contains(op.Path, part) || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		return errors.New("the disk is broken")
	}
}

// hasCounted: all that was fed, so many times the same, is counted, and nothing twice.
func (r *running) hasCounted(times int64, once map[string]int64) {
	r.t.Helper()
	if err := r.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	want := map[string]int64{}
	for w, n := range once {
		want[w] = n * times
	}
	await(r.t.Context(), r.t, r.OwnsAll, func() string { return fmt.Sprint(r.Threads()) })
	if got := r.counts(r.t.Context()); !maps.Equal(got, want) {
		r.t.Errorf("the=%d, want %d", got["the"], want["the"])
	}
}

// An engine that fails for good ends the incarnation that holds it. The next one opens another directory, restores, and
// counts are what they would have been.
func TestFailedEngineIsReplacedBySupervision(t *testing.T) {
	c := cluster(t)
	disk := newFailingDisk(tablesOf("/app/"))
	n := start(t, wordCount(t), onto(t, c, disk.option(20*time.Millisecond))...)
	input, want := texts(200)
	feed(t, c, input...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk.fails.Store(true)
	feed(t, c, input...)
	epoch := func() uint64 { return n.Threads()[0].Epoch }
	await(t.Context(), t, func() bool { return epoch() > 1 }, func() string { return fmt.Sprint(n.Threads(), disk.refused.Load()) })
	disk.fails.Store(false)
	if disk.refused.Load() == 0 {
		t.Fatal("nothing was refused")
	}
	n.hasCounted(2, want)
}
