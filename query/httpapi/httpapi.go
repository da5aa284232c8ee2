package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
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
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, r.serve(h))
	}
	return problems(mux, make(chan struct{}, MaxInFlight))
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

// store finds the store that the path names, or answers that there is none.
func (h *handler) store(w http.ResponseWriter, r *http.Request) (Store, bool) {
	s, ok := h.byName[r.PathValue("store")]
	if !ok {
		// The node's own word: it names the stores that there are.
		if _, err := h.node.Partitions(r.Context(), r.PathValue("store")); err != nil {
			fail(w, err)
		} else {
			fail(w, query.New(query.UnknownStateStore, r.PathValue("store"), query.NoPartition))
		}
	}
	return s, ok
}

// list tells what is known of the stores in every state of the node.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	type entry struct {
		Name       string `json:"name"`
		Kind       string `json:"kind"`
		KeyCodec   string `json:"key_codec,omitempty"`
		ValueCodec string `json:"value_codec,omitempty"`
		// Partitions is left out while the count is not known.
		Partitions int32 `json:"partitions,omitempty"`
	}
	infos, err := query.Stores(ctx, h.node)
	if err != nil {
		fail(w, err)
		return
	}
	out := []entry{}
	for _, s := range h.stores {
		e := entry{Name: s.Name, Kind: s.Kind}
		for _, info := range infos {
			if info.Name == s.Name {
				e.KeyCodec, e.ValueCodec, e.Partitions = info.KeyCodec, info.ValueCodec, info.Partitions
			}
		}
		out = append(out, e)
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
	store, ok := h.store(w, r)
	if !ok {
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
	reply, err := h.node.Ask(ctx, &querypb.Get{About: &querypb.About{Store: name, Partition: &p, Derived: true}, Key: key})
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
