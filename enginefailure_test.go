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

// An engine that fails for good ends the incarnation that holds it. The next one opens another directory, restores, and
// counts are what they would have been.
func TestFailedEngineIsReplacedBySupervision(t *testing.T) {
	c := cluster(t)
	var broken atomic.Bool
	var refused atomic.Int64
	disk := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !broken.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		refused.Add(1)
		return errors.New("the disk is broken")
	}))
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1),
		millrace.WithDirectory(func(o *store.DirectoryOptions) {
			o.FS, o.FlushInterval, o.ErrorPatience = disk, time.Millisecond, 20*time.Millisecond
		}))
	input, want := texts(200)
	feed(t, c, input...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	feed(t, c, input...)
	epoch := func() uint64 { return n.Threads()[0].Epoch }
	await(t.Context(), t, func() bool { return epoch() > 1 }, func() string { return fmt.Sprint(n.Threads(), refused.Load()) })
	broken.Store(false)
	if refused.Load() == 0 {
		t.Fatal("nothing was refused")
	}
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for w := range want {
		want[w] *= 2
	}
	await(t.Context(), t, func() bool { return n.OwnsAll() }, func() string { return fmt.Sprint(n.Owned()) })
	if got := n.counts(t.Context()); !maps.Equal(got, want) {
		t.Errorf("the=%d, want %d", got["the"], want["the"])
	}
}
