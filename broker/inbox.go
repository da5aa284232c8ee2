package broker

import "sync"

// Inbox takes events from any goroutine and hands them, in order and in batches, to the one loop that owns it. It is
// why ports only submit: what they do comes back here.
//
// The mutex protects the pending slice. An actor's mailbox in its place would cost a message per event and could not be
// drained in one step by a loop that is not an actor's Receive (a poll inside Receive would starve queries).
type Inbox struct {
	mu      sync.Mutex
	pending []Event
	wake    chan struct{}
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{wake: make(chan struct{}, 1)} }

// Put adds an event and wakes the owner.
func (in *Inbox) Put(e Event) {
	in.mu.Lock()
	in.pending = append(in.pending, e)
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Poll moves everything that is pending to dst. It never blocks.
func (in *Inbox) Poll(dst []Event) []Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	dst = append(dst, in.pending...)
	clear(in.pending)
	in.pending = in.pending[:0]
	return dst
}

// Wake is readable when an event may be pending. One value may stand for many events.
func (in *Inbox) Wake() <-chan struct{} { return in.wake }
