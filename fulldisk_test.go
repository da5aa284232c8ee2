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

// H19: a disk has no space, and writes are tried again and again. The thread's cause is a full disk, and names the state; the
// process and the node live, callers get a failure to try again, and the log has a few lines for each restart. When there is
// space again the node goes on by itself, with the right counts.
func TestH19FullDiskIsWaitedFor(t *testing.T) {
	c := cluster(t)
	var lines atomic.Int64
	disk := newFailingDisk(func(op errorfs.Op) error {
		if !strings.Contains(op.Path, "/app/") || op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpRemove {
			return nil
		}
		return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	})
	n := start(t, wordCount(t), onto(t, c, disk.option(100*time.Millisecond), millrace.WithLogger(slog.New(counted{lines: &lines})))...)
	input, want := texts(200)
	feed(t, c, input...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk.fails.Store(true)
	feed(t, c, input...)
	first := n.Threads()[0].Epoch
	await(t.Context(), t, func() bool {
		th := n.Threads()[0]
		return th.Epoch >= first+2 && errors.Is(th.Cause, store.ErrDiskFull) && strings.Contains(th.Cause.Error(), "/app/")
	}, func() string { return fmt.Sprint(n.Threads(), disk.refused.Load()) })
	if _, _, err := query.Get(t.Context(), n, counts, "the"); err != nil && !errors.Is(err, query.ErrRetryable) {
		t.Errorf("a caller is told %v", err)
	}
	if s := n.State(); s == lifecycle.NodeError || s == lifecycle.NodePendingError {
		t.Errorf("the node is %v", s)
	}
	if got := lines.Load(); got > int64(10*(n.Threads()[0].Epoch+1)) {
		t.Errorf("%d lines in the log for %d refused writes and %d restarts", got, disk.refused.Load(), n.Threads()[0].Epoch-first)
	}
	disk.fails.Store(false)
	n.hasCounted(2, want)
}
