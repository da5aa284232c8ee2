package millrace_test

import (
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
)

// A profile tells of which thread and which task a goroutine is that runs user code, and of which thread a loop is.
func TestGoroutinesAreLabelled(t *testing.T) {
	c := cluster(t)
	var inside atomic.Value
	n := start(t, callback(t, func(string) error {
		var b strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			return err
		}
		inside.Store(b.String())
		return nil
	}), onto(t, c)...)
	feed(t, c, "one")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	profile, _ := inside.Load().(string)
	if !strings.Contains(profile, `"task":"0_0"`) || !strings.Contains(profile, `"thread":"thread-1"`) {
		t.Error(profile)
	}
	n.stop()
}
