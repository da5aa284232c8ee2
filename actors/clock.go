package actors

import (
	"slices"
	"sync"
	"time"
)

// Clock is what supervision knows of time.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f on a goroutine of its own, or on that of ManualClock.Advance, when d has passed.
	AfterFunc(d time.Duration, f func())
}

// realClock is the machine's.
type realClock struct{}

func (realClock) Now() time.Time                      { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

// ManualClock is a Clock for tests: its time passes when Advance says so.
//
// The mutex protects both fields: actors and the test use the clock from their own goroutines.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []alarm
}

type alarm struct {
	at time.Time
	f  func()
}

// NewManualClock starts at the given time.
func NewManualClock(now time.Time) *ManualClock { return &ManualClock{now: now} }

// Now implements Clock.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements Clock.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = append(c.alarms, alarm{c.now.Add(d), f})
}

// Advance lets d pass and calls what has become due, earliest first.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	slices.SortStableFunc(c.alarms, func(a, b alarm) int { return a.at.Compare(b.at) })
	due := 0
	for due < len(c.alarms) && !c.alarms[due].at.After(c.now) {
		due++
	}
	alarms := c.alarms[:due:due]
	c.alarms = c.alarms[due:]
	c.mu.Unlock()
	for _, a := range alarms {
		a.f()
	}
}
