package cli

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
)

// talk tells a person what goes on.
type talk struct {
	out, err io.Writer
	// log is where the node's log goes.
	log  io.Writer
	once bool
}

// shared serialises the lines of several goroutines (the verb, the watcher of states, the node's log). The mutex protects
// the writer; a goroutine that owns it would have to be waited for at the end.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

func newTalk(p Process, once bool) *talk {
	err := &shared{w: p.Err}
	t := &talk{out: &shared{w: p.Out}, err: err, log: err, once: once}
	if once {
		t.out = err
	}
	return t
}

func (t *talk) ln(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

func (t *talk) warn(format string, args ...any) { fmt.Fprintf(t.err, format+"\n", args...) }

// change tells of a move. A count that ends by itself needs none of it, unless something went wrong.
func (t *talk) change(app string, c stateChange) {
	who := c.thread
	if who == "" {
		who = app
	}
	switch {
	case c.thread == "" && c.cause != nil && t.once:
	case c.thread == "" && c.cause != nil: // the verb ends with the cause as its last sentence
		t.ln("%s: %s -> %s", who, c.old, c.new)
	case c.cause != nil:
		t.warn("%s: %s -> %s: %s", who, c.old, c.new, sentence(c.cause))
	case !t.once && c.old != c.new:
		t.ln("%s: %s -> %s", who, c.old, c.new)
	}
}

// tree shows the actors: node, threads, and the tasks that run here with their stores.
func (t *talk) tree(s *session) {
	t.ln("/%s", s.id)
	for _, thread := range s.node.Threads() {
		t.ln("  /%s  %s", thread.Name, thread.State)
	}
	stores := map[int32][]string{}
	for _, sub := range s.topology.SubTopologies {
		for _, store := range sub.Stores {
			stores[sub.ID] = append(stores[sub.ID], store.Name)
		}
	}
	for _, id := range s.node.Owned() {
		line := "    task " + id.String()
		if names := stores[id.SubTopology]; len(names) > 0 {
			line += "  store " + strings.Join(names, ", ")
		}
		t.ln("%s", line)
	}
}

// where tells how to ask and how to end.
func (t *talk) where(s *session) {
	base := s.guarded.scheme() + "://" + s.address()
	if s.dev && s.app.Demo != nil {
		t.ln("Ask for a count:  curl %s/stores/%s/keys/%s", base, url.PathEscape(s.app.Demo.Counts.StoreName()), url.PathEscape(s.app.Demo.Key))
	}
	t.ln("Health:           curl %s/readyz", base)
	if remote := s.node.RemoteAddress(); remote != "" {
		t.ln("Other processes:  %s", remote)
	}
	t.ln("Ctrl-C ends it.")
}

func (t *talk) ending(leave bool) {
	switch {
	case t.once:
	case leave:
		t.ln("Stopping: last commit, leaving the group, closing the stores. Ctrl-C again gives up waiting.")
	default:
		t.ln("Stopping: last commit, closing the stores; staying in the group (--leave leaves it).")
	}
}
