package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/query"
)

// minute is how often a page was seen in the minute that begins at Minute.
type minute struct {
	Minute time.Time `json:"minute"`
	Views  int64     `json:"views"`
}

type page struct {
	Page    string   `json:"page"`
	Views   int64    `json:"views"`
	Minutes []minute `json:"minutes,omitempty"`
}

// api are the two paths of this application. The node answers the others: health, stores, metrics.
func api(c query.Client) map[string]http.Handler {
	return map[string]http.Handler{
		"GET /views": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { viewsOf(c, w, r) }),
		"GET /top":   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { top(c, w, r) }),
	}
}

// viewsOf answers how often a page was seen, minute by minute, since a time and until another.
func viewsOf(c query.Client, w http.ResponseWriter, r *http.Request) {
	from, err := when(r, "since", 0)
	to, err2 := when(r, "until", math.MaxInt64)
	if err = errors.Join(err, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := page{Page: r.FormValue("page")}
	for e, err := range query.FetchRange(r.Context(), c, minutes, p.Page, from, to) {
		if err != nil {
			refuse(w, err)
			return
		}
		p.Minutes = append(p.Minutes, minute{time.UnixMilli(e.Key.Start).UTC(), e.Value})
		p.Views += e.Value
	}
	answer(w, http.StatusOK, p)
}

// top answers which ten pages were seen most in a minute.
func top(c query.Client, w http.ResponseWriter, r *http.Request) {
	at, err := when(r, "minute", -1)
	if err != nil || at < 0 {
		http.Error(w, "minute is not a time such as 2026-11-30T11:00:00Z", http.StatusBadRequest)
		return
	}
	pages := []page{}
	for e, err := range query.FetchAll(r.Context(), c, minutes, at, at) {
		if err != nil {
			refuse(w, err)
			return
		}
		pages = append(pages, page{Page: e.Key.Key, Views: e.Value})
	}
	slices.SortFunc(pages, func(a, b page) int {
		return cmp.Or(cmp.Compare(b.Views, a.Views), cmp.Compare(a.Page, b.Page))
	})
	answer(w, http.StatusOK, pages[:min(len(pages), 10)])
}

// when is the time that a parameter gives, in milliseconds since the Unix epoch.
func when(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, errors.New(name + " is not a time such as 2026-11-30T11:00:00Z")
	}
	return at.UnixMilli(), nil
}

// refuse passes on what a failure advises: ask here again, at the owner, elsewhere, or never.
func refuse(w http.ResponseWriter, err error) {
	status, f := http.StatusServiceUnavailable, (*query.Failure)(nil)
	if !errors.As(err, &f) {
		http.Error(w, err.Error(), status)
		return
	}
	switch f.Retry {
	case query.Rediscover:
		status = http.StatusMisdirectedRequest
	case query.Never:
		status = http.StatusBadRequest
	}
	answer(w, status, map[string]string{"error": f.Error(), "retry": f.Retry.String(), "owner": f.Owner})
}

func answer(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // a reader that has gone
}
