package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pageSize is how many entries one answer shows.
const pageSize = 50

// question is what the form asks.
type question struct {
	Store, Ask, Key, To, Resume string
	kind                        string
	asked                       bool
}

// asking is a way to ask.
type asking struct{ Name, Label string }

// Ways are what a store can be asked, in the form's order. Which path answers it depends on the store's kind.
func (question) Ways() []asking {
	return []asking{{"get", "one key"}, {"all", "all entries"}, {"range", "keys from … to …"}, {"prefix", "keys that begin with …"}, {"count", "how many entries"}, {"owners", "who has it"}}
}

// parse reads the form. A store that there is not is asked for all the same: the node says which there are.
func parse(v url.Values, stores []Store) question {
	q := question{Store: v.Get("store"), Ask: v.Get("ask"), Key: v.Get("key"), To: v.Get("to"), Resume: v.Get("resume")}
	q.asked = q.Store != ""
	if !slices.ContainsFunc(q.Ways(), func(a asking) bool { return a.Name == q.Ask }) {
		q.Ask = "get"
	}
	for _, s := range stores {
		if s.Name == q.Store {
			q.kind = s.Kind
		}
	}
	return q
}

// path is where the HTTP interface answers the question.
func (q *question) path() string {
	store, values := escape(q.Store), url.Values{"limit": {strconv.Itoa(pageSize)}}
	if q.Resume != "" {
		values.Set("resume", q.Resume)
	}
	windows := map[string]string{"window": "windows", "session": "sessions"}[q.kind]
	switch {
	case q.Ask == "owners":
		return "/owners/" + store
	case q.Ask == "count":
		return "/stores/" + store + "/count"
	case q.Ask == "get" && windows == "":
		return "/stores/" + store + "/keys/" + escape(q.Key)
	case q.Ask == "get":
		return "/stores/" + store + "/" + windows + "/" + escape(q.Key) + "?" + values.Encode()
	case q.Ask == "prefix":
		values.Set("prefix", q.Key)
		return "/stores/" + store + "/prefix?" + values.Encode()
	case q.Ask == "range":
		from, to := "from", "to"
		if windows != "" {
			from, to = "key_from", "key_to"
		}
		q.bound(values, from, to)
		return "/stores/" + store + "/" + cmp.Or(windows, "range") + "?" + values.Encode()
	}
	return "/stores/" + store + "/" + cmp.Or(windows, "all") + "?" + values.Encode()
}

// escape is a key or the name of a store as a part of a path. A mux takes parts of dots out, unless they are escaped too.
func escape(key string) string {
	if key == "." || key == ".." {
		return strings.ReplaceAll(key, ".", "%2E")
	}
	return url.PathEscape(key)
}

// bound leaves a bound that is empty open.
func (q *question) bound(v url.Values, from, to string) {
	if q.Key != "" {
		v.Set(from, q.Key)
	}
	if q.To != "" {
		v.Set(to, q.To)
	}
}

// answer is what the HTTP interface said.
type answer struct {
	// Path is where a program gets the same; Status the code.
	Path   string
	Status int
	// Next leads to the next entries; empty if there are none.
	Next string
	// Failure is set if it is one.
	Failure *failure
	Entries []entry
	Scanned bool
	Value   *value
	Count   *int64
	Owners  []owner
}

type failure struct {
	Title, Detail, Kind, Retry, Owner string
	RetryAfter                        float64 `json:"retry_after"`
	Partition                         *int32
}

type value struct {
	Found     bool
	Key       string
	Value     string
	Timestamp int64
	Partition int32
}

type entry struct {
	Key, Value string
	Start, End *int64
	Timestamp  int64
	Partition  int32
}

type owner struct {
	Partition     int32
	Owner         string
	Here          bool
	State, Thread string
}

// Windowed says that the entries are windows or sessions.
func (a *answer) Windowed() bool { return len(a.Entries) > 0 && a.Entries[0].Start != nil }

// ask puts the question to the HTTP interface, as whoever asks for the page.
func (h *handler) ask(r *http.Request, q *question) *answer {
	a := &answer{Path: q.path()}
	to, err := url.Parse(a.Path)
	if err != nil {
		a.Failure = &failure{Title: "InvalidQuery", Detail: err.Error(), Retry: "never"}
		return a
	}
	in := r.Clone(r.Context())
	in.URL, in.RequestURI, in.Pattern = to, a.Path, ""
	out := &recorder{header: http.Header{}, status: http.StatusOK}
	h.api.ServeHTTP(out, in)
	a.Status = out.status
	if err := a.read(q, out.body.Bytes()); err != nil {
		a.Failure = &failure{Title: "StoreFailure", Detail: fmt.Sprintf("the answer cannot be shown: %v", err), Retry: "here"}
	}
	return a
}

// read takes the parts of an answer that the page shows.
func (a *answer) read(q *question, body []byte) error {
	switch {
	case a.Status == http.StatusOK && q.Ask == "count":
		var c struct{ Entries int64 }
		a.Count = &c.Entries
		return json.Unmarshal(body, &c)
	case a.Status == http.StatusOK && q.Ask == "owners":
		return json.Unmarshal(body, &a.Owners)
	case a.Status != http.StatusOK && !bytes.Contains(body, []byte(`"found"`)):
		a.Failure = &failure{}
		return json.Unmarshal(body, a.Failure)
	case q.Ask == "get" && (q.kind == "" || q.kind == "key-value"):
		a.Value = &value{}
		return json.Unmarshal(body, a.Value)
	}
	var page struct {
		Entries []entry
		Next    string
	}
	err := json.Unmarshal(body, &page)
	a.Scanned, a.Entries = true, page.Entries
	if next, bad := url.Parse(page.Next); bad == nil && page.Next != "" {
		v := url.Values{"store": {q.Store}, "ask": {q.Ask}, "key": {q.Key}, "to": {q.To}, "resume": {next.Query().Get("resume")}}
		a.Next = "?" + v.Encode() + "#answer"
	}
	return err
}

// recorder keeps an answer. The HTTP interface bounds how long it is.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
