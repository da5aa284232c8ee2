package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
)

// restore is how far one is.
type restore struct {
	Restored  int64 `json:"restored"`
	Remaining int64 `json:"remaining"`
}

func asRestore(p *lifecycle.Progress) *restore {
	if p == nil {
		return nil
	}
	return &restore{p.Restored, p.Remaining}
}

// location is who has a store partition, as this node knows it.
type location struct {
	Store     string   `json:"store"`
	Partition int32    `json:"partition"`
	Owner     string   `json:"owner,omitempty"`
	Here      bool     `json:"here"`
	State     string   `json:"state"`
	Thread    string   `json:"thread,omitempty"`
	Epoch     uint64   `json:"epoch,omitempty"`
	Progress  *restore `json:"progress,omitempty"`
}

func asLocation(l query.Location) location {
	return location{l.Store, l.Partition, l.Owner, l.Here, l.State, l.Thread, l.Epoch, asRestore(l.Progress)}
}

func (h *handler) owner(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.store(w, r)
	if !ok {
		return
	}
	key, err := store.parseRaw("the key", r.PathValue("key"))
	if err != nil {
		fail(w, err)
		return
	}
	l, err := query.Locate(ctx, h.node, handle(store.Name), key)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, "application/json", asLocation(l))
}

func (h *handler) owners(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.store(w, r)
	if !ok {
		return
	}
	all, err := query.Locations(ctx, h.node, store.Name)
	if err != nil {
		fail(w, err)
		return
	}
	out := []location{}
	for _, l := range all {
		out = append(out, asLocation(l))
	}
	write(w, http.StatusOK, "application/json", out)
}

// progress lists the restores of one store or of all.
func (h *handler) progress(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if r.PathValue("store") != "" {
		if _, ok := h.store(w, r); !ok {
			return
		}
	}
	all, err := query.Restores(ctx, h.node, r.PathValue("store"))
	if err != nil {
		fail(w, err)
		return
	}
	all = slices.DeleteFunc(all, func(s query.RestoreInfo) bool { return !mayRead(r, s.Store) })
	write(w, http.StatusOK, "application/json", asProgress(all))
}

func asProgress(all []query.RestoreInfo) []RestoreProgress {
	out := []RestoreProgress{}
	for _, s := range all {
		p := s.Progress
		out = append(out, RestoreProgress{Store: s.Store, Partition: s.Partition, Restored: p.Restored, Remaining: p.Remaining, Left: s.Left.Seconds()})
	}
	return out
}
