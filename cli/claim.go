package cli

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"
)

// markKind is what a mark in the log of claims means.
type markKind string

const (
	// markClaim asks for the right to feed. It is granted if nobody holds it at this place of the log.
	markClaim markKind = "claim"
	// markDone gives the right back.
	markDone markKind = "done"
	// markTake takes the right from a holder that has fallen silent.
	markTake markKind = "take"
)

// mark is one entry of the log of claims.
type mark struct {
	kind markKind
	// process is the process id of the state directory; token is one claim of it.
	process, token string
	// of is the token that a markTake takes from.
	of string
}

// claimLog is a topic of one partition, so that all processes see the same marks in the same order. It belongs to one
// goroutine.
type claimLog interface {
	io.Closer
	// Append puts m at the end. It returns when m is in the log, or with the reason why it may not be.
	Append(ctx context.Context, m mark) error
	// All returns every mark, those included that were in the log before the call.
	All(ctx context.Context) ([]mark, error)
}

// holder is who may feed after all of the marks; a zero mark if nobody may.
//
// A claim of the holder's own process succeeds: processes never share a state directory, so the claim before it is of a
// process that has ended.
func holder(marks []mark) (h mark) {
	for _, m := range marks {
		switch m.kind {
		case markClaim:
			if h.token == "" || h.process == m.process {
				h = m
			}
		case markDone:
			if h.token == m.token {
				h = mark{}
			}
		case markTake:
			if h.token == m.of && m.of != "" {
				h = m
			}
		}
	}
	return h
}

// claim is the right to feed a source topic, which one process has at a time.
//
// The easy way is to look whether the topic is empty and then to feed it. Two processes that start at the same instant
// both find it empty, and every word is counted twice. Owning partition 0 of the group does not help: the owner may lose
// it between its look and its first record. So each process appends a claim to a log that all of them read back, and its
// order decides. A holder that was killed is replaced by its own process at once, and by others when neither a mark nor a
// line has been written for the patience. That is a lease: a holder that finds itself silent for half of the patience
// looks again before it goes on.
type claim struct {
	log      claimLog
	process  string
	token    string
	patience time.Duration
	// progress changes whenever the holder has fed something.
	progress func(ctx context.Context) (string, error)
	// waiting is called once if another process holds the right.
	waiting  func()
	released bool
	// fed is when the last line was handed over.
	fed time.Time
}

// pollEvery is how often a claim that waits looks again.
const pollEvery = 50 * time.Millisecond

// acquire waits until the right is this claim's, or ctx ends.
func (c *claim) acquire(ctx context.Context) error {
	c.token = uuid.NewString()
	if err := c.log.Append(ctx, mark{kind: markClaim, process: c.process, token: c.token}); err != nil {
		return err
	}
	w := watch{claim: c}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for now := time.Now(); ; {
		marks, err := c.log.All(ctx)
		if err != nil {
			return err
		}
		h := holder(marks)
		if h.token == c.token {
			c.fed = now
			return nil
		}
		if err := w.step(ctx, now, h, len(marks)); err != nil {
			return err
		}
		select {
		case now = <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch is what a claim that waits has seen of the holder.
type watch struct {
	*claim
	told     bool
	since    time.Time
	marks    int
	progress string
}

// step asks again if the right is free, and takes it if its holder has been silent for too long.
func (w *watch) step(ctx context.Context, now time.Time, h mark, marks int) error {
	if h.token == "" {
		return w.log.Append(ctx, mark{kind: markClaim, process: w.process, token: w.token})
	}
	if !w.told {
		w.told = true
		w.waiting()
	}
	progress, err := w.claim.progress(ctx)
	if err != nil {
		return err
	}
	if w.since.IsZero() || marks != w.marks || progress != w.progress {
		w.since, w.marks, w.progress = now, marks, progress
		return nil
	}
	if now.Sub(w.since) < w.patience {
		return nil
	}
	w.since = now
	return w.log.Append(ctx, mark{kind: markTake, process: w.process, token: w.token, of: h.token})
}

// check makes sure that the right was not taken while this process was silent. It is called before each line.
func (c *claim) check(ctx context.Context) error {
	now := time.Now()
	silent := now.Sub(c.fed)
	if c.fed = now; silent < c.patience/2 {
		return nil
	}
	marks, err := c.log.All(ctx)
	if err != nil {
		return err
	}
	if h := holder(marks); h.token != c.token {
		return failf(nil, "nothing was fed for %s, so process %s has taken the feeding over; let it finish, then run the same command again", silent.Round(time.Second), h.process)
	}
	return nil
}

// release gives the right back.
func (c *claim) release(ctx context.Context) error {
	return c.log.Append(ctx, mark{kind: markDone, process: c.process, token: c.token})
}
