package httpapi

import "net/http"

// Measured is a Node that shows its metrics at /metrics. Every node has the path; one that shows none says so.
type Measured interface {
	Node
	// Metrics answers with the figures in Prometheus' text form; nil if there are none.
	Metrics() http.Handler
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	if n, ok := h.node.(Measured); ok {
		if m := n.Metrics(); m != nil {
			m.ServeHTTP(w, r)
			return
		}
	}
	noQuestion(w, http.StatusNotFound, "this node shows no metrics: its program gives it no MeterProvider that can, such as package exposition's")
}
