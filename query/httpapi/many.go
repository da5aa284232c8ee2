package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record/codec"
)

const (
	// MaxKeys is how many keys one request may name.
	MaxKeys = 1_000
	// MaxAnswerBytes is how many bytes the entries of one answer may have in the store. Pages end there; a request for many
	// keys fails.
	MaxAnswerBytes = 4 << 20
)

// bytesCodec leaves keys and values as they are. It has no name, so nothing is checked against it.
type bytesCodec struct{}

var _ codec.Codec[[]byte] = bytesCodec{}

// Name implements codec.Codec.
func (bytesCodec) Name() string { return "" }

// Ordered implements codec.Codec.
func (bytesCodec) Ordered() bool { return true }

// Encode implements codec.Codec.
func (bytesCodec) Encode(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }

// Decode implements codec.Codec.
func (bytesCodec) Decode(b []byte) ([]byte, error) { return b, nil }

// ParseText implements codec.Codec.
func (bytesCodec) ParseText(s string) ([]byte, error) { return []byte(s), nil }

// FormatText implements codec.Codec.
func (bytesCodec) FormatText(v []byte) string { return string(v) }

// handle is a store by its name alone.
type handle string

// StoreName implements query.Handle.
func (h handle) StoreName() string { return string(h) }

// StoreKind implements query.Handle.
func (h handle) StoreKind() string { return "" }

// KeyCodec implements query.Handle.
func (h handle) KeyCodec() codec.Codec[[]byte] { return bytesCodec{} }

// ValueCodec implements query.Handle.
func (h handle) ValueCodec() codec.Codec[[]byte] { return bytesCodec{} }

var _ query.Handle[[]byte, []byte] = handle("")

// bounded is a client that takes a limited number of bytes of answers.
type bounded struct {
	query.Client
	taken atomic.Int64
}

// Ask implements query.Client.
func (b *bounded) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	reply, err := b.Client.Ask(ctx, q)
	if err == nil && b.taken.Add(int64(proto.Size(reply))) > MaxAnswerBytes {
		return nil, query.Invalid(q.GetAbout().GetStore(), query.NoPartition,
			fmt.Sprintf("the answer has more than %d bytes: ask for fewer keys", MaxAnswerBytes))
	}
	return reply, err
}

// result is one key of many. It has a value or a failure, or is absent.
type result struct {
	value
	Failure *problem `json:"failure,omitempty"`
}

// manyResults is the answer to a request for many keys.
type manyResults struct {
	Results  []result `json:"results"`
	Position []offset `json:"position,omitempty"`
}

func (h *handler) getMany(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL, true, "key")
	if err != nil {
		fail(w, query.Invalid(r.PathValue("store"), query.NoPartition, err.Error()))
		return
	}
	h.many(w, r, values["key"])
}

func (h *handler) postMany(w http.ResponseWriter, r *http.Request) {
	body, f := readBody(w, r, "application/json")
	if f != nil {
		fail(w, f)
		return
	}
	keys, ok := keysOf(body)
	if !ok {
		fail(w, query.Invalid(r.PathValue("store"), query.NoPartition, `the body is not {"keys": ["…", …]}`))
		return
	}
	h.many(w, r, keys)
}

// keysOf reads the body. A null is no key, not the empty one, which encoding/json would make of it.
func keysOf(body []byte) (keys []string, ok bool) {
	var asked struct {
		Keys []*string `json:"keys"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, false
	}
	for _, k := range asked.Keys {
		if k == nil {
			return nil, false
		}
		keys = append(keys, *k)
	}
	return keys, true
}

// many answers 200 if any key was answered; a key whose partition fails has the failure in its place.
func (h *handler) many(w http.ResponseWriter, r *http.Request, texts []string) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.storeOf(w, r, keyValueKind)
	if !ok {
		return
	}
	keys, err := parseKeys(store, texts)
	if err != nil {
		fail(w, err)
		return
	}
	at := &query.Tracker{}
	results, err := query.GetMany(ctx, &bounded{Client: h.node}, handle(store.Name), keys, query.Track(at))
	if results == nil {
		fail(w, err)
		return
	}
	out := make([]result, len(results))
	answered := false
	for i, got := range results {
		out[i] = h.result(store, texts[i], got)
		answered = answered || out[i].Failure == nil
	}
	if !answered || errors.Is(err, query.ErrInvalidQuery) {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, "application/json", manyResults{out, asOffsets(query.ToPositions(at.Position()))})
}

func parseKeys(store *Store, texts []string) ([][]byte, error) {
	if len(texts) == 0 || len(texts) > MaxKeys {
		return nil, query.Invalid(store.Name, query.NoPartition, "it names "+strconv.Itoa(len(texts))+" keys: name 1 to "+strconv.Itoa(MaxKeys))
	}
	keys := make([][]byte, len(texts))
	for i, text := range texts {
		var err error
		if keys[i], err = store.parse("a key", text); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (h *handler) result(store *Store, text string, got query.Result[[]byte]) result {
	out := result{value: value{Key: text, Partition: got.Partition, Found: got.Found, Timestamp: got.Timestamp}}
	err := got.Err
	if err == nil && got.Found {
		var formatted string
		if formatted, err = store.FormatValue(got.Value); err == nil {
			out.Value = &formatted
		} else {
			err = query.New(query.StoreFailure, store.Name, got.Partition)
		}
	}
	if err != nil {
		p := asProblem(err)
		out.Found, out.Failure = false, &p
	}
	return out
}

// count takes approximate=true for an estimate, which costs a bounded number of reads.
func (h *handler) count(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.store(w, r)
	if !ok {
		return
	}
	values, err := parameters(r.URL, false, "approximate")
	approximate := false
	if err == nil && values.Has("approximate") {
		if approximate, err = strconv.ParseBool(values.Get("approximate")); err != nil {
			err = errors.New("approximate is neither true nor false")
		}
	}
	if err != nil {
		fail(w, query.Invalid(store.Name, query.NoPartition, err.Error()))
		return
	}
	var opts []query.Option
	if approximate {
		opts = append(opts, query.Approximate())
	}
	n, err := query.Count(ctx, h.node, handle(store.Name), opts...)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, "application/json", map[string]any{"entries": n, "approximate": approximate})
}
