package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/query"
)

// Observed is a Node that tells at /events what happens in it. Every node has the path; one that tells nothing says so.
type Observed interface {
	Node
	// Transitions yields what happens from the call on until ctx ends, as JSON gives it. It waits for no reader: what a slow one
	// misses is counted in what it gets next. causes says whether the texts of causes may be told.
	Transitions(ctx context.Context, causes bool) iter.Seq[any]
	// Progress is how far everything is at this moment.
	Progress() Progress
	// Stopped is closed when nothing will happen any more.
	Stopped() <-chan struct{}
}

// Progress is how far a node is. Its JSON keys are stable.
type Progress struct {
	// State is the node's.
	State string `json:"state"`
	// Tasks are those that run on this node, in order; none if nobody measures it (WithMeterProvider).
	Tasks []TaskProgress `json:"tasks"`
	// Restores are those that are under way.
	Restores []RestoreProgress `json:"restores"`
}

// TaskProgress is how far a task is.
type TaskProgress struct {
	Task string `json:"task"`
	// Lag is how many offsets of its sources it has not processed. Rate is records per second since the look before this one;
	// nil if that was too long ago to tell.
	Lag  int64    `json:"lag"`
	Rate *float64 `json:"rate,omitempty"`
}

// RestoreProgress is how far the restore of a store partition is.
type RestoreProgress struct {
	Store     string `json:"store"`
	Partition int32  `json:"partition"`
	Restored  int64  `json:"restored"`
	Remaining int64  `json:"remaining"`
	// Rate is offsets per second since its beginning, Left the seconds that it is expected to take yet; 0 if that is not known.
	Rate float64 `json:"rate,omitempty"`
	Left float64 `json:"left,omitempty"`
}

// Limits of /events.
const (
	// MaxStreams is how many callers are told at a time; the next one is Overloaded.
	MaxStreams = 64
	// StreamTime is how long a caller may take to read one event; one that takes longer is cut off.
	StreamTime = 10 * time.Second
	// ProgressEvery is how often the progress is told.
	ProgressEvery = time.Second
)

// stream is one answer at /events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

// events tells what happens as server-sent events: "transition" for each, "progress" at once and every second, and "end" as the
// last one, if the node has stopped or the server is to.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	n, ok := h.node.(Observed)
	if !ok {
		noQuestion(w, http.StatusNotFound, "this node does not tell what happens in it")
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		f := query.New(query.Overloaded, "", query.NoPartition)
		f.Detail = "the node tells " + strconv.Itoa(MaxStreams) + " callers already what happens"
		fail(w, f)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{w: w, control: http.NewResponseController(w)}
	// The server's bounds are for answers that end. What cannot be lifted ends this one early, and the caller comes back.
	_ = s.control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s.tell(ctx, n, Trusted(r))
}

// tell writes events until the caller has gone, the node has stopped or the server is to.
func (s *stream) tell(ctx context.Context, n Observed, causes bool) {
	ticks := time.NewTicker(ProgressEvery)
	defer ticks.Stop()
	s.buffer.WriteString("retry: 2000\n\n") // milliseconds until a browser comes back
	transitions := pump(ctx, n.Transitions(ctx, causes))
	ok := s.send("progress", n.Progress())
	for ok {
		select {
		case t := <-transitions:
			ok = s.send("transition", t)
		case <-ticks.C:
			ok = s.send("progress", n.Progress())
		case <-n.Stopped():
			s.rest(transitions)
			s.send("end", map[string]string{"state": n.State().String()})
			return
		case <-ending(ctx):
			s.send("end", map[string]string{"state": n.State().String()})
			return
		case <-ctx.Done():
			return
		}
	}
}

// rest sends what has been handed over already.
func (s *stream) rest(transitions <-chan any) {
	for {
		select {
		case t := <-transitions:
			if !s.send("transition", t) {
				return
			}
		default:
			return
		}
	}
}

// pump makes a channel of transitions, which a loop can look at beside others. It has no room: what waits, waits where what is
// too much is counted.
func pump(ctx context.Context, transitions iter.Seq[any]) <-chan any {
	c := make(chan any)
	go func() {
		for t := range transitions {
			select {
			case c <- t:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// send writes one event; false says that the caller does not read any more.
func (s *stream) send(name string, data any) bool {
	s.buffer.WriteString("event: " + name + "\ndata: ")
	if json.NewEncoder(&s.buffer).Encode(data) != nil { // it ends in a line feed
		return false
	}
	s.buffer.WriteByte('\n')
	_ = s.control.SetWriteDeadline(time.Now().Add(StreamTime))
	_, err := s.w.Write(s.buffer.Bytes())
	s.buffer.Reset()
	return err == nil && s.control.Flush() == nil
}
