package millracetest

import (
	"sync/atomic"
	"time"
)

// clock is the Driver's time. It is atomic because store actors read it when a question comes, on their goroutines.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) set(t time.Time) { c.at.Store(&t) }
func (c *clock) now() time.Time  { return *c.at.Load() }
