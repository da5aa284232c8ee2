package query

import (
	"context"
	"errors"
	"time"
)

// Policy bounds Repeat.
type Policy struct {
	// Attempts is the most that f is called; 0 means until the context ends.
	Attempts int
	// Wait is the least time between two calls; a failure's RetryAfter is used if it is longer. Max caps both, 1 s if 0.
	Wait, Max time.Duration
}

// Repeat calls f until it succeeds, fails for another reason than a retryable *Failure, the attempts are used up, or ctx
// ends. It returns the last error of f. f must Open again after StateStoreMigrated, so it takes care to hold no View over
// a failure; with the free functions this needs nothing.
func Repeat(ctx context.Context, p Policy, f func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := f(ctx)
		if err == nil || !errors.Is(err, ErrRetryable) || ctx.Err() != nil || (p.Attempts > 0 && attempt >= p.Attempts) {
			return err
		}
		timer := time.NewTimer(p.wait(err))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (p Policy) wait(err error) time.Duration {
	wait := p.Wait
	if f := (*Failure)(nil); errors.As(err, &f) {
		wait = max(wait, f.RetryAfter)
	}
	most := p.Max
	if most == 0 {
		most = time.Second
	}
	return min(wait, most)
}
