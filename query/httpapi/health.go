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
	here := trusted(r)
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
	status := http.StatusOK
	if s := h.node.State(); s == lifecycle.NodePendingError || s == lifecycle.NodeError {
		status = http.StatusServiceUnavailable
	}
	write(w, status, "application/json", h.health(r))
}

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	status := http.StatusServiceUnavailable
	if h.node.State() == lifecycle.NodeRunning {
		status = http.StatusOK
	}
	write(w, status, "application/json", h.health(r))
}
