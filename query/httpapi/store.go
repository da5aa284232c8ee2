package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// The kinds of stores, as the topology names them.
const (
	keyValueKind = "key-value"
	windowKind   = "window"
	sessionKind  = "session"
)

// Store is a store as text. The keys of a window store are written key@start, those of a session store key@start..end.
type Store struct {
	Name, Kind, KeyCodec string
	// Ordered says that the bytes of keys sort as the keys do. Without it a range of keys is refused.
	Ordered bool
	// WindowSize is the distance from the start of a window to its end; for window stores.
	WindowSize time.Duration
	// ParseKey refuses text that no key of the store is written as.
	ParseKey               func(text string) ([]byte, error)
	FormatKey, FormatValue func([]byte) (string, error)
}

// keyText is how keys are written.
func (s *Store) keyText() string {
	switch s.Kind {
	case windowKind:
		return "key@start"
	case sessionKind:
		return "key@start..end"
	}
	return "key"
}

// parse reads a key of the store.
func (s *Store) parse(what, text string) ([]byte, error) {
	key, err := s.ParseKey(text)
	if err != nil {
		return nil, s.invalid(what + " is not one of this store: " + err.Error())
	}
	return key, nil
}

// parseRaw reads the key of a record: of a window or session, the part before its times.
func (s *Store) parseRaw(what, text string) ([]byte, error) {
	times := map[string]string{windowKind: "@0", sessionKind: "@0..0"}[s.Kind]
	key, err := s.ParseKey(text + times)
	if err != nil {
		return nil, s.invalid(what + " is no key of this store: " + err.Error())
	}
	return s.raw(key), nil
}

// raw is the key of the records behind a key of the store: its partition is the key's.
func (s *Store) raw(key []byte) []byte {
	raw, ok := key, false
	switch s.Kind {
	case windowKind:
		raw, _, _, ok = record.SplitWindowKey(key)
	case sessionKind:
		raw, _, _, ok = record.SplitSessionKey(key)
	}
	if !ok {
		return key
	}
	return raw
}

// times are the start and the end of a window or session.
func (s *Store) times(key []byte) (start, end int64, ok bool) {
	switch s.Kind {
	case windowKind:
		_, start, _, ok = record.SplitWindowKey(key)
		return start, start + s.WindowSize.Milliseconds(), ok
	case sessionKind:
		_, start, end, ok = record.SplitSessionKey(key)
	}
	return start, end, ok
}

// formatRaw is the text of the key of the records; it is the store's key up to the last @.
func (s *Store) formatRaw(key []byte) (string, error) {
	text, err := s.FormatKey(key)
	return text[:max(0, strings.LastIndexByte(text, '@'))], err
}

func (s *Store) invalid(detail string) *query.Failure {
	return query.Invalid(s.Name, query.NoPartition, detail)
}

// elsewhere are where stores of a kind are read.
var elsewhere = map[string]string{
	keyValueKind: "its entries are at /keys, /all, /range and /prefix",
	windowKind:   "its windows are at /windows",
	sessionKind:  "its sessions are at /sessions",
}

// mismatch is the failure of a question for a store of another kind.
func (s *Store) mismatch() *query.Failure {
	f := query.New(query.StateStoreTypeMismatch, s.Name, query.NoPartition)
	f.Detail = fmt.Sprintf("it is of kind %s: %s", s.Kind, elsewhere[s.Kind])
	return f
}

// store finds the store that the path names, or answers that there is none.
func (h *handler) store(w http.ResponseWriter, r *http.Request) (*Store, bool) {
	s, ok := h.byName[r.PathValue("store")]
	if !ok {
		// The node's own word: it names the stores that there are.
		if _, err := h.node.Partitions(r.Context(), r.PathValue("store")); err != nil {
			fail(w, discreet(r, err))
		} else {
			fail(w, query.New(query.UnknownStateStore, r.PathValue("store"), query.NoPartition))
		}
	}
	return s, ok
}

// storeOf finds the store that the path names, or answers that there is none or that it is of another kind.
func (h *handler) storeOf(w http.ResponseWriter, r *http.Request, kind string) (*Store, bool) {
	s, ok := h.store(w, r)
	if ok && s.Kind != kind {
		fail(w, s.mismatch())
		return nil, false
	}
	return s, ok
}
