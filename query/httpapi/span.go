package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// paging are the parameters of every scan.
var paging = []string{"reverse", "limit", "resume"}

// all, between and prefix scan a key-value store; their difference is the bounds.
func (h *handler) all(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, keyValueKind, nil, func(*scan, url.Values) error { return nil })
}

func (h *handler) between(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, keyValueKind, []string{"from", "to"}, func(s *scan, v url.Values) (err error) {
		s.from, s.to, err = s.keys(v, "from", "to")
		s.through = s.to != nil
		return err
	})
}

func (h *handler) prefix(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, keyValueKind, []string{"prefix"}, func(s *scan, v url.Values) (err error) {
		if !v.Has("prefix") {
			return errors.New("it needs a prefix: use all for every key")
		}
		s.from, err = s.store.parse("the prefix", v.Get("prefix"))
		s.to = query.PrefixEnd(s.from)
		return err
	})
}

// windows scans all keys of a window store, or some: the draft's all, fetchAll and fetch of a range of keys.
func (h *handler) windows(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, windowKind, []string{"key_from", "key_to", "time", "from", "to"}, func(s *scan, v url.Values) (err error) {
		s.windows = &querypb.Windows{}
		if s.windows.KeyFrom, s.windows.KeyTo, err = s.keys(v, "key_from", "key_to"); err != nil {
			return err
		}
		return starts(s.windows, v)
	})
}

// windowsOf scans the windows of one key: the draft's fetch of a key and a time, or two.
func (h *handler) windowsOf(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, windowKind, []string{"time", "from", "to"}, func(s *scan, v url.Values) error {
		if err := s.one(r.PathValue("key")); err != nil {
			return err
		}
		return starts(s.windows, v)
	})
}

// sessions scans all keys of a session store, or some.
func (h *handler) sessions(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, sessionKind, []string{"key_from", "key_to", "earliest_end", "latest_start"}, func(s *scan, v url.Values) (err error) {
		s.windows = &querypb.Windows{}
		if s.windows.KeyFrom, s.windows.KeyTo, err = s.keys(v, "key_from", "key_to"); err != nil {
			return err
		}
		return touches(s.windows, v)
	})
}

// sessionsOf scans the sessions of one key: the draft's fetch of a key, and findSessions.
func (h *handler) sessionsOf(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, sessionKind, []string{"earliest_end", "latest_start"}, func(s *scan, v url.Values) error {
		if err := s.one(r.PathValue("key")); err != nil {
			return err
		}
		return touches(s.windows, v)
	})
}

// one narrows a scan to the windows of one key, which are all in its partition.
func (s *scan) one(text string) (err error) {
	s.home, err = s.store.parseRaw("the key", text)
	s.windows = &querypb.Windows{KeyFrom: s.home, KeyTo: s.home}
	return err
}

// starts reads which starts of windows are meant: those between from and to, or time alone.
func starts(w *querypb.Windows, v url.Values) (err error) {
	if v.Has("time") {
		if v.Has("from") || v.Has("to") {
			return errors.New("time is one start, and from and to are two: use one or the other")
		}
		w.StartFrom, err = millis(v, "time")
		w.StartTo = w.StartFrom
		return err
	}
	if w.StartFrom, err = millis(v, "from"); err == nil {
		w.StartTo, err = millis(v, "to")
	}
	return err
}

// touches reads which sessions are meant by their ends and starts.
func touches(w *querypb.Windows, v url.Values) (err error) {
	if w.EndFrom, err = millis(v, "earliest_end"); err == nil {
		w.StartTo, err = millis(v, "latest_start")
	}
	return err
}

// millis reads a time; nil if it is not there.
func millis(v url.Values, name string) (*int64, error) {
	if !v.Has(name) {
		return nil, nil
	}
	at, err := strconv.ParseInt(v.Get(name), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s %q is no time: give milliseconds since the Unix epoch", name, v.Get(name))
	}
	return &at, nil
}

// keys reads the bounds of a range of keys; nil is open. A codec that does not keep the order is refused whatever the keys
// are: the answer would be some other part of the store, and look like a good one.
func (s *scan) keys(v url.Values, from, to string) (low, high []byte, err error) {
	if !s.store.Ordered && (v.Has(from) || v.Has(to)) {
		return nil, nil, fmt.Errorf("a range is not ordered: the key codec %s does not keep the order of keys, so use one that does, or scan all", s.store.KeyCodec)
	}
	if v.Has(from) {
		low, err = s.store.parseRaw(from, v.Get(from))
	}
	if err == nil && v.Has(to) {
		high, err = s.store.parseRaw(to, v.Get(to))
	}
	return low, high, err
}

// parameters reads the query part of a URL. A name that is not known is an error: a misspelt bound would be an open one. So
// is one that is there twice, unless it may be.
func parameters(u *url.URL, many bool, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query part of the URL cannot be read: %w", err)
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no parameter %q: use %v", name, known)
		}
		if len(all) > 1 && !many {
			return nil, fmt.Errorf("the parameter %s is there %d times: give it once", name, len(all))
		}
	}
	return values, nil
}

// parseScan reads a request for a page. bounds reads what only its route has, by the names that are given.
func parseScan(store *Store, u *url.URL, known []string, bounds func(*scan, url.Values) error) (*scan, error) {
	values, err := parameters(u, false, slices.Concat(known, paging)...)
	if err != nil {
		return nil, err
	}
	s := &scan{store: store, limit: defaultLimit}
	if err := bounds(s, values); err != nil {
		return nil, err
	}
	if text := values.Get("reverse"); values.Has("reverse") {
		if s.reverse, err = strconv.ParseBool(text); err != nil {
			return nil, errors.New("reverse is neither true nor false")
		}
	}
	if text := values.Get("limit"); values.Has("limit") {
		if s.limit, err = strconv.Atoi(text); err != nil || s.limit < 1 || s.limit > maxLimit {
			return nil, fmt.Errorf("limit %q is not a number from 1 to %d", text, maxLimit)
		}
	}
	if values.Has("resume") {
		s.at, err = parseMark(values.Get("resume"))
	}
	return s, err
}
