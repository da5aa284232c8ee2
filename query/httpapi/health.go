package httpapi

import (
	"net/http"

	"github.com/millrace-io/millrace/lifecycle"
)

type health struct {
	State   string         `json:"state"`
	Threads []threadHealth `json:"threads"`
	// Quarantined are the tasks that fail at one record again and again.
	Quarantined []Quarantined `json:"quarantined,omitempty"`
}

type threadHealth struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Epoch uint64 `json:"epoch"`
	Cause string `json:"cause,omitempty"`
	// Stuck: its loop has not stepped for too long; what it has committed is readable.
	Stuck bool `json:"stuck,omitempty"`
}

// Silenced is what callers who are not trusted are told in the place of a cause: ones from other machines and, behind
// Authenticate, ones without MayOperate.
const Silenced = "it has failed; the node's log says why"

// health tells causes to those who are trusted only: their text may hold paths and addresses of the host.
func (h *handler) health(r *http.Request) health {
	here := Trusted(r)
	out := health{State: h.node.State().String(), Threads: []threadHealth{}}
	for _, t := range h.node.Threads() {
		th := threadHealth{Name: t.Name, State: t.State.String(), Epoch: t.Epoch, Stuck: t.Stuck}
		switch {
		case t.Cause != nil && here:
			th.Cause = t.Cause.Error()
		case t.Cause != nil:
			th.Cause = Silenced
		}
		out.Threads = append(out.Threads, th)
	}
	if o, ok := h.node.(Operator); ok {
		out.Quarantined = told(o, r)
	}
	return out
}

func (h *handler) live(w http.ResponseWriter, r *http.Request) {
	s := h.node.State()
	h.answer(w, r, check{name: "node", bad: s == lifecycle.NodePendingError || s == lifecycle.NodeError, detail: s.String()}, func() any { return h.health(r) })
}

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	s := h.node.State()
	h.answer(w, r, check{name: "node", bad: s != lifecycle.NodeRunning, detail: s.String()}, func() any { return h.health(r) })
}

// startup is 503 until the node has been RUNNING once, and 200 from then on: what comes later is for the other probes.
func (h *handler) startup(w http.ResponseWriter, r *http.Request) {
	c := check{name: "node", bad: !h.started(), detail: "has been running once"}
	if c.bad {
		c.detail = "has not been running yet, and is " + h.node.State().String()
	}
	h.answer(w, r, c, func() any {
		out := startup{health: h.health(r), Started: !c.bad}
		if restores, err := h.restores(r); err == nil { // else it is left out
			out.Restores = asProgress(restores)
		}
		return out
	})
}

// startup is the health with how far restores are.
type startup struct {
	health
	Started  bool              `json:"started"`
	Restores []RestoreProgress `json:"restores,omitempty"`
}
