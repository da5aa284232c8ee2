package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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

// H19: a disk has no space, while thousands of writes are tried. The thread's cause is a full disk, and names the state; the
// process and the node live, callers get a failure to try again, and the log has a few lines for each restart. When there is
// space again the node goes on by itself, with the right counts.
func TestH19FullDiskIsWaitedFor(t *testing.T) {
	c := cluster(t)
	var full atomic.Bool
	var refused, lines atomic.Int64
	disk := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !full.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.Contains(op.Path, "/app/") || op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpRemove {
			return nil
		}
		refused.Add(1)
		return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	}))
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1),
		millrace.WithLogger(slog.New(counted{lines: &lines})),
		millrace.WithDirectory(func(o *store.DirectoryOptions) {
			o.FS, o.FlushInterval, o.ErrorPatience = disk, time.Millisecond, 100*time.Millisecond
		}))
	input, want := texts(200)
	feed(t, c, input...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	feed(t, c, input...)
	first := n.Threads()[0].Epoch
	await(t.Context(), t, func() bool { return n.Threads()[0].Epoch >= first+2 }, func() string { return fmt.Sprint(n.Threads(), refused.Load()) })
	th := n.Threads()[0]
	if !errors.Is(th.Cause, store.ErrDiskFull) || !strings.Contains(th.Cause.Error(), "/app/") {
		t.Errorf("the cause is %v", th.Cause)
	}
	if _, _, err := query.Get(t.Context(), n, counts, "the"); err != nil && !errors.Is(err, query.ErrRetryable) {
		t.Errorf("a caller is told %v", err)
	}
	if s := n.State(); s == lifecycle.NodeError || s == lifecycle.NodePendingError {
		t.Errorf("the node is %v", s)
	}
	if got := lines.Load(); got > int64(10*(n.Threads()[0].Epoch+1)) {
		t.Errorf("%d lines in the log for %d refused writes and %d restarts", got, refused.Load(), n.Threads()[0].Epoch-first)
	}
	full.Store(false)
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
