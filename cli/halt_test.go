package cli

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestHalt(t *testing.T) {
	for _, c := range []struct {
		name      string
		signals   []os.Signal
		apart     time.Duration
		always    bool
		leave     bool
		abandoned bool
	}{
		{"an interrupt leaves", []os.Signal{os.Interrupt}, 0, false, true, false},
		{"a termination stays", []os.Signal{syscall.SIGTERM}, 0, false, false, false},
		{"a termination leaves if asked to", []os.Signal{syscall.SIGTERM}, 0, true, true, false},
		{"the second interrupt gives up", []os.Signal{os.Interrupt, os.Interrupt}, echo, false, true, true},
		{"the second signal does not change what the first one meant", []os.Signal{syscall.SIGTERM, os.Interrupt}, echo, false, false, true},
		{"two at the same moment are one", []os.Signal{syscall.SIGTERM, os.Interrupt}, 0, false, false, false},
		{"and so are two that are a little apart", []os.Signal{os.Interrupt, os.Interrupt}, echo - 1, false, true, false},
		{"a third one gives up", []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, echo / 2, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			signals := make(chan os.Signal)
			now := time.Unix(0, 0)
			h := newHalt(t.Context(), signals, c.always, func() time.Time { now = now.Add(c.apart); return now })
			defer h.close()
			if h.stopping.Err() != nil {
				t.Fatal("stopping before any signal")
			}
			for _, s := range c.signals {
				signals <- s
			}
			<-h.stopping.Done()
			if c.abandoned {
				<-h.abandoned.Done()
			}
			if h.leave != c.leave || (h.abandoned.Err() != nil) != c.abandoned || context.Cause(h.stopping) != errInterrupted {
				t.Fatalf("leave %v, abandoned %v, cause %v", h.leave, h.abandoned.Err(), context.Cause(h.stopping))
			}
		})
	}
}

func TestHaltOfACancelledCallerWaitsForTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHalt(ctx, nil, false, time.Now)
	defer h.close()
	cancel()
	<-h.stopping.Done()
	if h.abandoned.Err() != nil || !h.leave {
		t.Fatal("a cancelled context is an interrupt, not the second one")
	}
}
