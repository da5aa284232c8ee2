package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/store"
)

// smallDisk is a file system of its own in memory, mounted with these options, for who may mount one.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp writes until there is no space left, and gives it back.
func fillUp(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// A real disk runs full while a node works, twice: its tasks wait, whoever asks gets a right value, no thread is restarted,
// and when there is space again nothing is missing and nothing counts twice.
func TestRealDiskRunsFullAndIsWaitedFor(t *testing.T) {
	dir := smallDisk(t, "size=8m")
	c := cluster(t)
	n := start(t, wordCount(t), onto(t, c, millrace.WithStateDir(filepath.Join(dir, "state")),
		millrace.WithDirectory(func(o *store.DirectoryOptions) { o.FlushInterval, o.SpaceRetry = time.Millisecond, 10*time.Millisecond }))...)
	input, want := texts(200)
	feed(t, c, input...)
	n.hasCounted(1, want)
	epoch, failures := n.Threads()[0].Epoch, map[query.Kind]int{}
	for round := range 2 {
		free := fillUp(t, dir)
		feed(t, c, input...)
		await(t.Context(), t, func() bool { askFull(t, n, want, round+2, failures); return len(n.waiting()) > 0 }, func() string { return fmt.Sprint(n.Tree()) })
		for range 100 {
			askFull(t, n, want, round+2, failures)
		}
		free()
		n.hasCounted(int64(round)+2, want)
	}
	if len(failures) > 0 || n.Threads()[0].Epoch != epoch {
		t.Errorf("questions failed: %v; the thread is %v", failures, n.Threads()[0])
	}
}

// The same where a full disk is not waited for, as when a node starts on one: its threads say so and go on trying, whoever asks
// gets a right value or a typed failure, and the process stays. When there is space again, nothing is missing and nothing
// counts twice.
func TestRealDiskRunsFullAndHasSpaceAgain(t *testing.T) {
	dir := smallDisk(t, "size=8m")
	c := cluster(t)
	n := start(t, wordCount(t), onto(t, c, millrace.WithStateDir(filepath.Join(dir, "state")),
		millrace.WithRestarts(actors.Intensity{Max: 1000, Window: time.Hour, First: 10 * time.Millisecond, Cap: 100 * time.Millisecond}),
		millrace.WithDirectory(func(o *store.DirectoryOptions) {
			o.FlushInterval, o.ErrorPatience, o.SpaceRetry = time.Millisecond, 20*time.Millisecond, -1
		}))...)
	input, want := texts(200)
	feed(t, c, input...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	rounds, failures := 2, map[query.Kind]int{}
	for round := range rounds {
		free, before := fillUp(t, dir), n.Threads()[0].Epoch
		feed(t, c, input...)
		// The incarnation that was writing has failed, and then two more that found no space to open the state.
		full := func() bool {
			th := n.Threads()[0]
			return th.Epoch >= before+3 && errors.Is(th.Cause, store.ErrDiskFull)
		}
		await(ctx, t, func() bool { askFull(t, n, want, round+2, failures); return full() }, func() string { return fmt.Sprint(n.Threads()) })
		for range 20 {
			askFull(t, n, want, round+2, failures)
		}
		if s := n.State(); s == lifecycle.NodeError || s == lifecycle.NodePendingError {
			t.Fatal("the node has ended: ", s)
		}
		free()
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	n.hasCounted(int64(rounds)+1, want)
	t.Logf("full %d times, incarnations %d, failures of questions %v", rounds, n.Threads()[0].Epoch, failures)
}

// askFull asks for a key: its count was a multiple of once when the disk had space, and is growing.
func askFull(t *testing.T, n *running, once map[string]int64, most int, failures map[query.Kind]int) {
	t.Helper()
	v, _, err := query.Get(t.Context(), n.Node, counts, "the")
	var f *query.Failure
	switch {
	case errors.As(err, &f):
		failures[f.Kind]++
	case err != nil:
		t.Errorf("not typed: %v", err)
	case v < once["the"] || v > int64(most)*once["the"]:
		t.Errorf("the=%d, which was never so", v)
	}
}
