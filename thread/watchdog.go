package thread

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Pulse is a loop's sign of life. The loop's goroutine writes it, whoever watches reads it.
type Pulse struct{ began atomic.Int64 }

// begin says that a step, or something else that runs user code, begins; end that it is over.
func (p *Pulse) begin(now time.Time) { p.began.Store(now.UnixNano()) }
func (p *Pulse) end()                { p.began.Store(0) }

// Busy is for how long the present step has run; 0 between steps, where a loop waits for events.
func (p *Pulse) Busy(now time.Time) time.Duration {
	began := p.began.Load()
	if began == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-began))
}

// Patience is how long a step may take.
type Patience struct {
	// Stuck is after how long the thread is flagged; Poll, which is longer, after how long it is given up. Kafka's name
	// for the latter is max.poll.interval.ms.
	Stuck, Poll time.Duration
}

// Verdict is what a step's length means.
type Verdict uint8

const (
	// Steps: the loop is alive.
	Steps Verdict = iota
	// Stuck: it has not stepped for too long. Its tasks stand still, what they have committed is served.
	Stuck
	// Overdue: others could have taken its tasks over long ago. The member leaves the group, and the loop, which cannot be
	// ended from outside, is abandoned.
	Overdue
)

// Judge is the whole of the watchdog's judgement.
func (p Patience) Judge(busy time.Duration) Verdict {
	switch {
	case busy >= p.Poll:
		return Overdue
	case busy >= p.Stuck:
		return Stuck
	}
	return Steps
}

// StuckError is why a thread was abandoned: user code has not returned.
type StuckError struct {
	Thread string
	After  time.Duration
}

// Error says for how long.
func (e *StuckError) Error() string {
	return fmt.Sprintf("thread: %s has not stepped for %s: a processor, a codec or a handler does not return; what it holds is given up", e.Thread, e.After.Round(time.Millisecond))
}

// Abandon is the message that ends an incarnation whose loop does not return. Nothing that the loop does afterwards is
// heard by anybody: its slot's ports are closed by who sends this, its watcher is mute, and the actor and its store actors
// end at once. The goroutine ends when user code returns, if ever: Go has no way to end it from outside.
type Abandon struct{}

// pace is how many records a step takes from one task. Slow user code makes steps short, so that a thread that moves on is
// not taken for one that is stuck, and commits are not late: 1,000 records of 50 ms each would be one step of 50 s.
type pace struct{ now, most int }

// Steps longer than tooLong are halved, those shorter than quick grow again.
const (
	tooLong = 200 * time.Millisecond
	quick   = 50 * time.Millisecond
)

func (p *pace) took(d time.Duration) {
	switch {
	case d > tooLong:
		p.now = max(1, p.now/2)
	case d < quick:
		p.now = min(p.most, p.now*2)
	}
}
