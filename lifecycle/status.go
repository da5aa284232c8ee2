package lifecycle

import "time"

// ThreadStatus is what a thread publishes at each transition, before the transition has any other effect.
type ThreadStatus struct {
	// Name is the thread actor's name, thread-1 and up.
	Name  string
	State Thread
	// Epoch is the incarnation: 1 for the first, one more for each supervised restart.
	Epoch uint64
	// Cause is why the last restart or the ERROR happened; nil if there was none.
	Cause error
	// Since is when the state was entered.
	Since time.Time
	// Retry is when a replacement starts, if one is pending; the zero time otherwise.
	Retry time.Time
	// Stuck says that its loop has not stepped for too long. It is a flag on the state: what is committed stays readable.
	Stuck bool
}

// Progress is how far a restore has come. Remaining 0 means done.
type Progress struct {
	// Restored and Remaining count changelog offsets, markers and compacted gaps included.
	Restored, Remaining int64
	Started             time.Time
}
