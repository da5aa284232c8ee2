package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// fake is a node with a state, an answer and a failure.
type fake struct {
	state   lifecycle.Node
	threads []lifecycle.ThreadStatus
	value   *querypb.Value
	failure *query.Failure
	key     []byte
}

func (f *fake) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	if f.failure != nil {
		return nil, f.failure
	}
	switch q := q.(type) {
	case *querypb.ListStores:
		return &querypb.Reply{Answer: &querypb.Reply_Stores{Stores: &querypb.StoreList{Stores: []*querypb.Store{{Name: "counts", Kind: "key-value", Partitions: 4}}}}}, nil
	case *querypb.Get:
		f.key = q.Key
	}
	return &querypb.Reply{Answer: &querypb.Reply_Value{Value: f.value}}, nil
}

func (f *fake) Partitions(context.Context, string) (int32, error) { return 4, nil }
func (f *fake) State() lifecycle.Node                             { return f.state }
func (f *fake) Threads() []lifecycle.ThreadStatus                 { return f.threads }

// words is a store whose text is its bytes, but for keys that begin with a digit.
var words = httpapi.Store{
	Name: "counts", Kind: "key-value", KeyCodec: "string", Ordered: true,
	ParseKey: func(s string) ([]byte, error) {
		if strings.IndexAny(s, "0123456789") == 0 {
			return nil, errors.New("it begins with a digit")
		}
		return []byte(s), nil
	},
	FormatKey:   func(b []byte) (string, error) { return string(b), nil },
	FormatValue: func(b []byte) (string, error) { return string(b), nil },
}

func call(t *testing.T, f *fake, method, path string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	httpapi.Handler(f, []httpapi.Store{words}).ServeHTTP(w, r)
	var body map[string]any
	if strings.Contains(w.Header().Get("Content-Type"), "json") && strings.HasPrefix(w.Body.String(), "{") {
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
	}
	return w, body
}

func TestAbsentKeyIsNotAProblem(t *testing.T) {
	w, body := call(t, &fake{value: &querypb.Value{}}, "GET", "/stores/counts/keys/the")
	if w.Code != http.StatusNotFound || body["found"] != false || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("absent key: %d %v", w.Code, body)
	}
	w, body = call(t, &fake{}, "GET", "/stores/misspelt/keys/the")
	if w.Code != http.StatusNotFound || body["title"] != "UnknownStateStore" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("absent store: %d %v", w.Code, body)
	}
}

func TestAnEmptyValueIsAValue(t *testing.T) {
	w, body := call(t, &fake{value: &querypb.Value{Present: true}}, "GET", "/stores/counts/keys/the")
	if value, there := body["value"]; w.Code != http.StatusOK || body["found"] != true || !there || value != "" {
		t.Errorf("%d %v", w.Code, body)
	}
	if _, body := call(t, &fake{value: &querypb.Value{}}, "GET", "/stores/counts/keys/the"); body["value"] != nil {
		t.Errorf("an absent key has a value: %v", body)
	}
}

func TestKeysTravelAsText(t *testing.T) {
	for _, key := range []string{"the", "", "a/b", "ä ?#%", "a.b"} {
		f := &fake{value: &querypb.Value{Present: true, Value: []byte("42"), Timestamp: 7}}
		w, body := call(t, f, "GET", "/stores/counts/keys/"+url.PathEscape(key))
		if w.Code != http.StatusOK || string(f.key) != key || body["value"] != "42" || body["timestamp"] != 7.0 {
			t.Errorf("%q: %d %v, asked for %q", key, w.Code, body, f.key)
		}
	}
	if w, body := call(t, &fake{}, "GET", "/stores/counts/keys/7"); w.Code != http.StatusBadRequest || body["title"] != "InvalidQuery" {
		t.Errorf("a key that is not one: %d %v", w.Code, body)
	}
	if w, _ := call(t, &fake{}, "POST", "/stores/counts/keys/the"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// Every kind has a status, and a document that says what to do.
func TestEveryFailureIsAProblemDocument(t *testing.T) {
	for _, k := range query.Kinds() {
		failure := query.New(k, "counts", 2)
		failure.Owner, failure.Cause = "there:1", errors.New("/var/lib/secret")
		want := httpapi.Status(k)
		w, body := call(t, &fake{failure: failure}, "GET", "/stores/counts/keys/the")
		if w.Code != want || body["status"] != float64(want) || body["retry"] != failure.Retry.String() || body["owner"] != "there:1" ||
			body["type"] != "urn:millrace:failure:"+k.String() || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %v", k, w.Code, body)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v tells the cause: %s", k, w.Body)
		}
		if got := w.Header().Get("Retry-After") != ""; got != (failure.Retry == query.Here) {
			t.Errorf("%v: Retry-After is there: %v", k, got)
		}
	}
}

func TestHealth(t *testing.T) {
	for state, want := range map[lifecycle.Node]struct{ live, ready int }{
		lifecycle.NodeCreated: {200, 503}, lifecycle.NodeRebalancing: {200, 503}, lifecycle.NodeRunning: {200, 200},
		lifecycle.NodePendingShutdown: {200, 503}, lifecycle.NodeNotRunning: {200, 503},
		lifecycle.NodePendingError: {503, 503}, lifecycle.NodeError: {503, 503},
	} {
		f := &fake{state: state, threads: []lifecycle.ThreadStatus{{Name: "thread-1", Epoch: 2, Cause: errors.New("broken"), Since: time.Unix(0, 0)}}}
		live, _ := call(t, f, "GET", "/livez")
		ready, body := call(t, f, "GET", "/readyz")
		if live.Code != want.live || ready.Code != want.ready || body["state"] != state.String() {
			t.Errorf("%s: %d %d %v", state, live.Code, ready.Code, body)
		}
		if !strings.Contains(ready.Body.String(), "broken") {
			t.Errorf("readyz does not say why: %s", ready.Body)
		}
	}
	if w, _ := call(t, &fake{}, "GET", "/stores"); w.Code != 200 || !strings.Contains(w.Body.String(), `"counts"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
