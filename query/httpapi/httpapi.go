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

// Node is who is asked.
type Node interface {
	query.Client
	State() lifecycle.Node
	Threads() []lifecycle.ThreadStatus
}

// timeout bounds a question whose request has no deadline of its own.
const timeout = 5 * time.Second

// Handler serves the node's stores. In front of it, Authenticate tells callers apart; without it everybody who can reach it may
// ask, and whoever is on this machine may give orders.
func Handler(n Node, stores []Store) http.Handler {
	mux := http.NewServeMux()
	h := &handler{n, map[string]*Store{}, stores, make(chan struct{}, MaxStreams)}
	for i := range stores {
		h.byName[stores[i].Name] = &stores[i]
	}
	for i := range routes {
		r := &routes[i]
		mux.HandleFunc(r.method+" "+r.path, routed(r.guarded(r.serve(h))))
	}
	return problems(mux, make(chan struct{}, MaxInFlight))
}

type handler struct {
	node   Node
	byName map[string]*Store
	stores []Store
	// streams are the places of those who are told what happens.
	streams chan struct{}
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // so that a person can copy a URL out of it
	_ = e.Encode(body)     // the client has gone: nobody to tell
}

// list tells what is known of the stores in every state of the node.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	type entry struct {
		Name       string `json:"name"`
		Kind       string `json:"kind"`
		KeyText    string `json:"key_text"`
		KeyCodec   string `json:"key_codec,omitempty"`
		ValueCodec string `json:"value_codec,omitempty"`
		// Partitions is left out while the count is not known.
		Partitions int32 `json:"partitions,omitempty"`
		// Global: every node has all of it.
		Global bool `json:"global,omitempty"`
	}
	infos, err := query.Stores(ctx, h.node)
	if err != nil {
		fail(w, err)
		return
	}
	out := []entry{}
	for _, s := range h.stores {
		if !mayRead(r, s.Name) {
			continue
		}
		e := entry{Name: s.Name, Kind: s.Kind, KeyText: s.keyText()}
		for _, info := range infos {
			if info.Name == s.Name {
				e.KeyCodec, e.ValueCodec, e.Partitions, e.Global = info.KeyCodec, info.ValueCodec, info.Partitions, info.Global
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
	// Position is what the answer reflects at least.
	Position []offset `json:"position,omitempty"`
}

// offset is the next offset of a source partition that a store has not taken up yet.
type offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

func asOffsets(list []*querypb.Position) (out []offset) {
	for _, p := range list {
		out = append(out, offset{p.GetTopic(), p.GetPartition(), p.GetNext()})
	}
	return out
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	name, text := r.PathValue("store"), r.PathValue("key")
	store, ok := h.store(w, r)
	if !ok {
		return
	}
	key, err := store.parse("the key", text)
	if err != nil {
		fail(w, err)
		return
	}
	n, err := h.node.Partitions(ctx, name)
	if err != nil {
		fail(w, err)
		return
	}
	p := record.Partition(store.raw(key), n)
	reply, err := h.node.Ask(ctx, &querypb.Get{About: &querypb.About{Store: name, Partition: &p, Derived: true}, Key: key})
	if err != nil {
		fail(w, err)
		return
	}
	out := value{Key: text, Partition: p, Position: asOffsets(reply.GetPosition())}
	v := reply.GetValue()
	if !v.GetPresent() {
		out.write(w, http.StatusNotFound)
		return
	}
	formatted, err := store.FormatValue(present(v.GetValue()))
	if err != nil {
		fail(w, query.New(query.StoreFailure, name, p))
		return
	}
	out.Found, out.Value, out.Timestamp = true, &formatted, v.GetTimestamp()
	out.write(w, http.StatusOK)
}
