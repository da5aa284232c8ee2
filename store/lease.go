package store

import (
	"sync/atomic"
	"time"
)

// lease counts who is inside an engine, so that it is closed only when nobody is. Pebble panics, or reads freed memory,
// when it is used after or during its Close, and recover is no cure for the latter.
//
// The easy version is a read-write mutex. A scan would hold its read side for seconds, and a Close that waits for the
// write side makes every new reader wait too; with the counter new readers are turned away at once.
type lease struct {
	// state is the number of holders, and the closing bit.
	state atomic.Int64
	// idle is signalled when the last holder leaves after closing.
	idle chan struct{}
	// ended is closed when closing begins.
	ended chan struct{}
}

const closing int64 = 1 << 62

func newLease() *lease { return &lease{idle: make(chan struct{}, 1), ended: make(chan struct{})} }

// acquire lets the caller in, until release; false means that the engine closes or is closed.
func (l *lease) acquire() bool {
	if l.state.Add(1)&closing != 0 {
		l.release()
		return false
	}
	return true
}

// release is called once for each acquire. A caller that was turned away passes through here too and may signal idle
// again; that is harmless, because it never touched the engine and the channel keeps one signal only.
func (l *lease) release() {
	if l.state.Add(-1) == closing {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// ending reports that holders should hurry.
func (l *lease) ending() bool { return l.state.Load()&closing != 0 }

// end turns new callers away. It reports whether this call was the first.
func (l *lease) end() bool {
	for {
		s := l.state.Load()
		if s&closing != 0 {
			return false
		}
		if l.state.CompareAndSwap(s, s|closing) {
			close(l.ended)
			return true
		}
	}
}

// drain waits until everybody has left after end, at most for the given time.
func (l *lease) drain(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for l.state.Load() != closing {
		select {
		case <-l.idle:
		case <-timer.C:
			return l.state.Load() == closing
		}
	}
	return true
}
