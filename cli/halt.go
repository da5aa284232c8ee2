package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// errInterrupted is why a verb ended early when it was asked to.
var errInterrupted = errors.New("interrupted")

// halt turns signals into the two steps of an end: stop, then give up waiting.
type halt struct {
	// stopping ends at the first signal or with the caller's context; its cause is errInterrupted.
	stopping context.Context
	// abandoned ends at the second signal.
	abandoned context.Context
	// leave says whether to leave the group. It may be read when stopping has ended.
	leave bool

	now           func() time.Time
	stop, abandon context.CancelCauseFunc
	quit          chan struct{}
	gone          chan struct{}
}

// echo is how long after a signal another one is the same wish. One Ctrl-C arrives twice if a terminal and a program in
// between both pass it on.
const echo = 250 * time.Millisecond

// newHalt listens to signals until close. always means to leave the group on a termination signal too.
func newHalt(ctx context.Context, signals <-chan os.Signal, always bool, now func() time.Time) *halt {
	h := &halt{leave: true, now: now, quit: make(chan struct{}), gone: make(chan struct{})}
	// Neither is a child of ctx: a caller that cancels asks for a clean end, not for giving up.
	h.stopping, h.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	h.abandoned, h.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	go h.listen(ctx.Done(), signals, always)
	return h
}

func (h *halt) listen(cancelled <-chan struct{}, signals <-chan os.Signal, always bool) {
	defer close(h.gone)
	asked := time.Time{}
	for {
		select {
		case <-h.quit:
			return
		case <-cancelled:
			cancelled = nil
			asked = h.now()
			h.stop(errInterrupted)
		case s := <-signals:
			switch now := h.now(); {
			case asked.IsZero():
				asked = now
				h.leave = always || s != syscall.SIGTERM
				h.stop(errInterrupted)
			case now.Sub(asked) >= echo:
				h.abandon(errInterrupted)
				return
			}
		}
	}
}

// close stops listening and frees both contexts.
func (h *halt) close() {
	close(h.quit)
	<-h.gone
	h.stop(nil)
	h.abandon(nil)
}
