package millrace

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

// Event is one transition of something in a node's tree. Its JSON keys are stable.
type Event struct {
	Time time.Time `json:"time"`
	// Path and Kind say of what, as in Actor.
	Path string `json:"path"`
	Kind string `json:"kind"`
	// Old and New are the states' names, as lifecycle spells them. Old is empty for what is new; New is empty for what is
	// gone. They are the same if only the incarnation or a flag has changed.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Epoch is the incarnation; 0 for what has none.
	Epoch uint64 `json:"epoch,omitempty"`
	// Flags are what is true besides the state: stuck, disk-full, quarantined.
	Flags []string `json:"flags,omitempty"`
	// Cause is the text of Err, which is why a restart, an ERROR or a flag came about; both are empty otherwise.
	Cause string `json:"cause,omitempty"`
	Err   error  `json:"-"`
	// Missed is how many events before this one a slow reader did not get.
	Missed int `json:"missed,omitempty"`
}

// Kinds of what is in a tree.
const (
	KindNode    = "node"
	KindThread  = "thread"
	KindTask    = "task"
	KindStore   = "store"
	KindRestore = "restore"
	KindQuery   = "query"
)

// StateChange is one transition of the node or of one of its threads.
type StateChange struct {
	Time time.Time
	// Thread is the thread's name; empty for the node itself.
	Thread string
	// Old and New are the states' names, as lifecycle spells them.
	Old, New string
	// Epoch is the thread's incarnation; 0 for the node.
	Epoch uint64
	// Cause is why a restart or an ERROR happened; nil otherwise.
	Cause error
	// Missed is how many changes before this one a slow reader of Watch did not get.
	Missed int
}

// Events yields every transition of the node, its threads, tasks and stores from the call on, until the first loop over it
// or ctx ends. It holds 256 events for its reader; one that is slower misses some, which the next event counts. Nothing ever
// waits for a reader.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] {
	return n.status.board.hub.read(ctx, 256, func(Event) bool { return true })
}

// Watch yields the changes of node and thread states from the call on, until the first loop over it or ctx ends. A reader
// that is too slow misses some; the next change says how many. Events has those of tasks and stores too.
func (n *Node) Watch(ctx context.Context) iter.Seq[StateChange] {
	events := n.status.board.hub.read(ctx, 64, func(e Event) bool { return e.New != "" && (e.Kind == KindNode || e.Kind == KindThread) })
	return func(yield func(StateChange) bool) {
		for e := range events {
			if e.Old == "" {
				e.Old = e.New
			}
			c := StateChange{Time: e.Time, Old: e.Old, New: e.New, Cause: e.Err, Missed: e.Missed}
			if e.Kind == KindThread {
				c.Thread, c.Epoch = lastOf(e.Path), e.Epoch
			}
			if !yield(c) {
				return
			}
		}
	}
}

// hub hands events to readers.
//
// The mutex protects the readers: events come on the goroutines of whoever publishes, and have to be in each reader's
// channel, in order, before the publication counts as done.
type hub struct {
	mu      sync.Mutex
	readers []*reader
	// last are the most recent events, the oldest first.
	last []Event
}

// remembered is how many events a node keeps for those who come later.
const remembered = 100

// recent are the last events, the latest first.
func (h *hub) recent() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := slices.Clone(h.last)
	slices.Reverse(last)
	return last
}

// reader has a bounded channel: what does not fit is counted, not waited for.
type reader struct {
	events chan Event
	wants  func(Event) bool
	missed int
}

func (h *hub) tell(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.last) == remembered {
		h.last = slices.Delete(h.last, 0, 1)
	}
	h.last = append(h.last, e)
	for _, r := range h.readers {
		if !r.wants(e) {
			continue
		}
		e.Missed = r.missed
		select {
		case r.events <- e:
			r.missed = 0
		default:
			r.missed++
		}
	}
}

func (h *hub) add(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers = append(h.readers, r)
}

func (h *hub) remove(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers = slices.DeleteFunc(h.readers, func(o *reader) bool { return o == r })
}

// read yields the events that are published from now on until ctx ends, or until the reader stops. It listens before the loop
// begins: who is about to make something happen could not know otherwise when it may.
func (h *hub) read(ctx context.Context, room int, wants func(Event) bool) iter.Seq[Event] {
	r := &reader{events: make(chan Event, room), wants: wants}
	h.add(r)
	context.AfterFunc(ctx, func() { h.remove(r) })
	return func(yield func(Event) bool) {
		defer h.remove(r)
		for {
			select {
			case e := <-r.events:
				if !yield(e) {
					return
				}
			case <-ctx.Done():
				r.rest(yield)
				return
			}
		}
	}
}

// rest yields what was published before ctx ended: who ends it behind a Shutdown means to have seen that too.
func (r *reader) rest(yield func(Event) bool) {
	for {
		select {
		case e := <-r.events:
			if !yield(e) {
				return
			}
		default:
			return
		}
	}
}
