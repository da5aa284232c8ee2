package main

import (
	"context"
	"fmt"
	"time"
)

// The longest that things may take. A coordinator's fail-over takes ten seconds, a broker's start fifteen, and the
// machine may be busy; what takes longer than this has hung.
const (
	startLimit   = 180 * time.Second
	endLimit     = 60 * time.Second
	runningLimit = 120 * time.Second
	inSyncLimit  = 120 * time.Second
	advanceLimit = 120 * time.Second
	drainLimit   = 180 * time.Second
	readLimit    = 120 * time.Second
)

// hung is a wait that ended with its deadline.
type hung struct {
	waited string
	limit  time.Duration
	last   error
}

// Error says what was waited for and how it stood at the end.
func (h *hung) Error() string {
	return fmt.Sprintf("hung: waited %s for %s; the last look said: %v", h.limit, h.waited, h.last)
}

// Unwrap gives how it stood at the end.
func (h *hung) Unwrap() error { return h.last }

const lookEvery = 100 * time.Millisecond

// await looks until ask finds nothing missing, for limit at most, and as long as nothing else is broken.
func (r *run) await(ctx context.Context, what string, limit time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		err := ask(limited)
		if err == nil {
			return nil
		}
		if broken := r.broken(); broken != nil {
			return broken
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &hung{waited: what, limit: limit, last: err}
		}
	}
}

// pause lets time pass, as long as nothing is broken.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.broken()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// broken is what ends a run at once: a feeder or an observer that failed, a process that ended by itself.
func (r *run) broken() error {
	select {
	case err := <-r.feeder.failed:
		return err
	case err := <-r.observer.failed:
		return err
	default:
	}
	for _, n := range r.nodes {
		if err := n.alive(); err != nil {
			return err
		}
	}
	return nil
}
