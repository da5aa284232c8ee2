package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Policy bounds Retry. The zero Policy retries until the context ends.
type Policy struct {
	// Attempts is the most that f is called; 0 means until the context ends.
	Attempts int
	// Wait is the wait after the first failure, 10 ms if 0; it doubles with each further one, up to Max, 1 s if 0. A
	// failure's own RetryAfter is used if it is longer, also beyond Max. Half of a wait that is not the failure's own is
	// chance, so that many askers do not come back at once.
	Wait, Max time.Duration
	// Elsewhere says that f asks several nodes, or another one each time, so that a node that has stopped is no reason to
	// give up. Nodes is such a client.
	Elsewhere bool
}

// Retry calls f until it succeeds or another call cannot help, and returns the last error of f. What it does is the Retry of
// the *Failure that f returns:
//
//   - Here: it waits, then calls f again.
//   - Rediscover: it calls f again, the first time at once; f must Open again, so it takes care to hold no View over a
//     failure. With the free functions, and with Nodes, this needs nothing.
//   - Elsewhere: it gives up, unless the policy says that f asks elsewhere.
//   - Never, and every error that is not a *Failure: it gives up.
//
// It also gives up, at once, when ctx ends or would end before the wait is over.
func Retry(ctx context.Context, p Policy, f func(context.Context) error) error {
	var last Kind
	for attempt := 1; ; attempt++ {
		err := f(ctx)
		failure := (*Failure)(nil)
		if err == nil || !errors.As(err, &failure) || !p.again(failure) || ctx.Err() != nil || attempt == p.Attempts {
			return err
		}
		wait := p.wait(failure, attempt)
		if failure.retry() == Rediscover && last != failure.Kind {
			wait = 0
		}
		last = failure.Kind
		if !pause(ctx, wait) {
			return err
		}
	}
}

// RetryGet is Retry around a function with a result: most reads are.
func RetryGet[T any](ctx context.Context, p Policy, f func(context.Context) (T, error)) (out T, err error) {
	err = Retry(ctx, p, func(ctx context.Context) (err error) {
		out, err = f(ctx)
		return err
	})
	return out, err
}

// again says whether another call may help.
func (p Policy) again(f *Failure) bool {
	switch f.retry() {
	case Here, Rediscover:
		return true
	case Elsewhere:
		return p.Elsewhere
	}
	return false
}

// wait is how long to wait after the given attempt.
func (p Policy) wait(f *Failure, attempt int) time.Duration {
	first, most := p.Wait, p.Max
	if first == 0 {
		first = 10 * time.Millisecond
	}
	if most == 0 {
		most = time.Second
	}
	wait := most
	if attempt < 30 {
		wait = min(most, first<<(attempt-1))
	}
	wait = wait/2 + rand.N(wait/2+1)
	if f.retry() == Here {
		wait = max(wait, f.RetryAfter)
	}
	return wait
}

// pause is false if ctx ends before the wait is over.
func pause(ctx context.Context, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
