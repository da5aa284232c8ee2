package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// Store is a store as text.
type Store struct {
	Name, Kind             string
	ParseKey               func(text string) ([]byte, error)
	FormatKey, FormatValue func([]byte) (string, error)
}

// Node is who is asked.
type Node interface {
	query.Client
	State() lifecycle.Node
	Threads() []lifecycle.ThreadStatus
}

// timeout bounds a question whose request has no deadline of its own.
const timeout = 5 * time.Second

// Handler serves the node's stores.
func Handler(n Node, stores []Store) http.Handler {
	mux := http.NewServeMux()
	h := &handler{n, map[string]Store{}, stores}
	for _, s := range stores {
		h.byName[s.Name] = s
	}
	mux.HandleFunc("GET /livez", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	mux.HandleFunc("GET /stores", h.list)
	mux.HandleFunc("GET /stores/{store}/keys/{key...}", h.get)
	mux.HandleFunc("GET /stores/{store}/all", h.all)
	mux.HandleFunc("GET /stores/{store}/range", h.between)
	mux.HandleFunc("POST /ask/{message}", h.ask)
	return mux
}

type handler struct {
	node   Node
	byName map[string]Store
	stores []Store
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // so that a person can copy a URL out of it
	_ = e.Encode(body)     // the client has gone: nobody to tell
}

type health struct {
	State   string         `json:"state"`
	Threads []threadHealth `json:"threads"`
}

type threadHealth struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Epoch uint64 `json:"epoch"`
	Cause string `json:"cause,omitempty"`
}

func (h *handler) health() health {
	out := health{State: h.node.State().String(), Threads: []threadHealth{}}
	for _, t := range h.node.Threads() {
		th := threadHealth{Name: t.Name, State: t.State.String(), Epoch: t.Epoch}
		if t.Cause != nil {
			th.Cause = t.Cause.Error()
		}
		out.Threads = append(out.Threads, th)
	}
	return out
}

func (h *handler) live(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusOK
	if s := h.node.State(); s == lifecycle.NodePendingError || s == lifecycle.NodeError {
		status = http.StatusServiceUnavailable
	}
	write(w, status, "application/json", h.health())
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusServiceUnavailable
	if h.node.State() == lifecycle.NodeRunning {
		status = http.StatusOK
	}
	write(w, status, "application/json", h.health())
}

func (h *handler) list(w http.ResponseWriter, _ *http.Request) {
	type entry struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	out := []entry{}
	for _, s := range h.stores {
		out = append(out, entry{s.Name, s.Kind})
	}
	write(w, http.StatusOK, "application/json", out)
}

// value is the answer to a point read.
type value struct {
	Found bool   `json:"found"`
	Key   string `json:"key"`
	// Value is nil for an absent key only; a value without a character is a value.
	Value     *string `json:"value,omitempty"`
	Timestamp int64   `json:"timestamp,omitempty"`
	Partition int32   `json:"partition"`
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	name, text := r.PathValue("store"), r.PathValue("key")
	store, ok := h.byName[name]
	if !ok {
		fail(w, query.New(query.UnknownStateStore, name, query.NoPartition))
		return
	}
	key, err := store.ParseKey(text)
	if err != nil {
		fail(w, query.Invalid(name, query.NoPartition, "the key is not one of this store: "+err.Error()))
		return
	}
	n, err := h.node.Partitions(ctx, name)
	if err != nil {
		fail(w, err)
		return
	}
	p := record.Partition(key, n)
	reply, err := h.node.Ask(ctx, &querypb.Get{About: &querypb.About{Store: name, Partition: &p}, Key: key})
	if err != nil {
		fail(w, err)
		return
	}
	out := value{Key: text, Partition: p}
	v := reply.GetValue()
	if !v.GetPresent() {
		write(w, http.StatusNotFound, "application/json", out)
		return
	}
	formatted, err := store.FormatValue(present(v.GetValue()))
	if err != nil {
		fail(w, query.New(query.StoreFailure, name, p))
		return
	}
	out.Found, out.Value, out.Timestamp = true, &formatted, v.GetTimestamp()
	write(w, http.StatusOK, "application/json", out)
}

// problem is a failure as RFC 9457 has it.
type problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Retry      string `json:"retry"`
	RetryAfter int64  `json:"retry_after_ms,omitempty"`
	Owner      string `json:"owner,omitempty"`
}

func fail(w http.ResponseWriter, err error) {
	f := &query.Failure{}
	if !errors.As(err, &f) {
		f = query.New(query.StoreFailure, "", query.NoPartition)
	}
	status := statusOf(f)
	if status == http.StatusServiceUnavailable && f.Retry == query.Here {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(f.RetryAfter.Seconds()))))
	}
	write(w, status, "application/problem+json", problem{
		Type: "urn:millrace:failure:" + f.Kind.String(), Title: f.Kind.String(), Status: status, Detail: f.Error(),
		Retry: f.Retry.String(), RetryAfter: f.RetryAfter.Milliseconds(), Owner: f.Owner,
	})
}

func statusOf(f *query.Failure) int {
	switch f.Retry {
	case query.Rediscover:
		return http.StatusMisdirectedRequest
	case query.Never:
		if f.Kind == query.UnknownStateStore || f.Kind == query.PartitionNotInStore {
			return http.StatusNotFound
		}
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}
