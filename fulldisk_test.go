package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/store"
)

// counted is a log that counts what an operator is bothered with.
type counted struct {
	slog.Handler
	lines *atomic.Int64
}

func (c counted) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c counted) Handle(context.Context, slog.Record) error    { c.lines.Add(1); return nil }
func (c counted) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c counted) WithGroup(string) slog.Handler                { return c }

// fullDisk takes no write of the node's state while it fails.
func fullDisk() *failingDisk {
	return newFailingDisk(func(op errorfs.Op) error {
		if !strings.Contains(op.Path, "/app/") || op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpRemove {
			return nil
		}
		return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	})
}

// waiting are the tasks and stores of a node that wait for space, and why.
func (r *running) waiting() map[string]error {
	out := map[string]error{}
	for _, th := range r.Tree().Children {
		for _, a := range th.Children {
			if a.DiskFull {
				out[a.Path] = a.Err
			}
		}
	}
	return out
}

// H19: a disk has no space. The tasks whose state is to be written wait, and say for what; nothing is restarted, their stores
// are read as ever, and the log has a line or two for all of them. When there is space again they go on, with the right counts.
func TestH19FullDiskIsWaitedFor(t *testing.T) {
	c := cluster(t)
	var lines atomic.Int64
	disk := fullDisk()
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, wordCount(t), onto(t, c, disk.option(100*time.Millisecond), millrace.WithMeterProvider(shown), millrace.WithLogger(slog.New(counted{lines: &lines})))...)
	input, want := texts(200)
	feed(t, c, input...)
	n.hasCounted(1, want)
	epoch := n.Threads()[0].Epoch
	disk.fails.Store(true)
	feed(t, c, input...)
	stores := func() (paths int) {
		for path, err := range n.waiting() {
			full := (*store.DiskFullError)(nil)
			if !errors.As(err, &full) || !errors.Is(err, store.ErrDiskFull) {
				t.Fatalf("%s says %v", path, err)
			}
			if strings.Contains(path, "/store-") {
				paths++
				if !strings.Contains(err.Error(), `store "counts" partition `) {
					t.Fatalf("%s says %v", path, err)
				}
			}
		}
		return paths
	}
	await(t.Context(), t, func() bool { return stores() > 0 }, func() string { return fmt.Sprint(n.Tree(), disk.refused.Load()) })
	if full := scrape(t, n.Node).sum("millrace_store_disk_full", "store=counts"); !(full > 0) {
		t.Errorf("%v stores wait for space by the metrics", full)
	}
	for refused := disk.refused.Load(); disk.refused.Load() < refused+50; {
		for w := range want {
			if v, _, err := query.Get(t.Context(), n, counts, w); err != nil || v < want[w] || v > 2*want[w] {
				t.Fatalf("%s=%d, want %d at least: %v", w, v, want[w], err)
			}
		}
	}
	if th := n.Threads()[0]; th.State != lifecycle.ThreadRunning || th.Epoch != epoch {
		t.Errorf("the thread is %v", th)
	}
	if got := lines.Load(); got >= 10 {
		t.Errorf("%d lines in the log for %d refused writes", got, disk.refused.Load())
	}
	disk.fails.Store(false)
	n.hasCounted(2, want)
	await(t.Context(), t, func() bool { return len(n.waiting()) == 0 }, func() string { return fmt.Sprint(n.waiting()) })
}
