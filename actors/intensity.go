package actors

import (
	"fmt"
	"time"
)

// Answer is what happens after a failure that no other policy took.
type Answer uint8

const (
	// ReplaceThread restarts the failed actor after a back-off, until the intensity limit is reached; then the node ends
	// as with ShutdownNode.
	ReplaceThread Answer = iota
	// ShutdownNode ends this node; Run returns the cause.
	ShutdownNode
	// ShutdownApplication ends every node of the application, as KIP-671 does: the group's assignment carries it.
	ShutdownApplication
)

func (a Answer) String() string {
	if a > ShutdownApplication {
		return fmt.Sprintf("Answer(%d)", uint8(a))
	}
	return [...]string{"ReplaceThread", "ShutdownNode", "ShutdownApplication"}[a]
}

// Intensity bounds restarts: at most Max within Window, each after a back-off that doubles from First to Cap.
type Intensity struct {
	Max        int
	Window     time.Duration
	First, Cap time.Duration
}

// DefaultIntensity allows 10 restarts in 2 minutes, 100 ms to 10 s apart.
var DefaultIntensity = Intensity{Max: 10, Window: 2 * time.Minute, First: 100 * time.Millisecond, Cap: 10 * time.Second}

// History is the failures of one actor that still count.
type History struct{ at []time.Time }

// Fail records a failure. It is a pure step but for the jitter, which the caller gives as a number from 0 to 1: attempt
// counts the failures within the window, this one included; delay is the back-off; over says that it was one too many.
func (h *History) Fail(now time.Time, i Intensity, jitter float64) (attempt int, delay time.Duration, over bool) {
	kept := h.at[:0]
	for _, t := range h.at {
		if now.Sub(t) < i.Window {
			kept = append(kept, t)
		}
	}
	h.at = append(kept, now)
	attempt = len(h.at)
	delay = i.Cap
	if shift := attempt - 1; shift < 30 && i.First<<shift < i.Cap {
		delay = i.First << shift
	}
	delay -= time.Duration(jitter * float64(delay) / 2)
	return attempt, delay, attempt > i.Max
}
