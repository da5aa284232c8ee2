package main

import (
	"context"
	"sync"
	"time"
)

// pulse measures when this process stands still: on a machine that has more to do than it can, the asker itself does not run
// for a while, and what comes late then is not the answer.
//
// The mutex protects the gaps: the pulse writes them and every client reads.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	gaps []gap
}

type gap struct{ from, to time.Time }

const (
	beat = 5 * time.Millisecond
	// pause is the shortest gap that counts.
	pause = 4 * beat
)

func (p *pulse) run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	p.beat(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.beat(time.Now())
		}
	}
}

func (p *pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && now.Sub(p.last) >= pause {
		p.gaps = append(p.gaps, gap{p.last, now})
	}
	p.last = now
}

// stalled is how long this process stood still between two times.
func (p *pulse) stalled(from, to time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps := p.gaps
	if to.Sub(p.last) >= pause { // it stands still, or has only just gone on
		gaps = append(gaps[:len(gaps):len(gaps)], gap{p.last, to})
	}
	for _, g := range gaps {
		if d := earlier(to, g.to).Sub(later(from, g.from)); d > 0 {
			sum += d
		}
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
