package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// full is a node that answers every question, or fails every one.
type full struct {
	failure *query.Failure
	fake
}

func (f *full) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	if f.failure != nil {
		return nil, f.failure
	}
	reply := &querypb.Reply{Store: "counts", Position: []*querypb.Position{{Topic: "t", Partition: 1, Next: 1 << 40}}}
	switch q := q.(type) {
	case *querypb.Get:
		reply.Answer = &querypb.Reply_Value{Value: &querypb.Value{Present: string(q.Key) != "absent", Value: q.Key, Timestamp: 3}}
	case *querypb.GetMany:
		values := &querypb.Values{}
		for _, k := range q.Keys {
			values.Values = append(values.Values, &querypb.Value{Present: string(k) != "absent", Value: k})
		}
		reply.Answer = &querypb.Reply_Values{Values: values}
	case *querypb.Range:
		key := q.From
		if q.Windows != nil { // good bytes for a window and for a session
			key = record.AppendSessionSuffix([]byte("a"), 5, 6)
		}
		reply.Answer = &querypb.Reply_Page{Page: &querypb.Page{More: true, Entries: []*querypb.Entry{{Key: key, Value: []byte("v")}}}}
	case *querypb.Count:
		reply.Answer = &querypb.Reply_Count{Count: &querypb.CountReply{Entries: 5}}
	case *querypb.ListStores:
		reply.Answer = &querypb.Reply_Stores{Stores: &querypb.StoreList{Stores: []*querypb.Store{{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "int64", Partitions: 4}}}}
	case *querypb.Locate:
		list := &querypb.Locations{Partitions: 4, Locations: []*querypb.Location{{Partition: 1, Owner: "there:1", State: "restoring", Epoch: 4, ThreadState: "RUNNING",
			Progress: &querypb.Progress{Restored: 1, Remaining: 2}}}}
		reply.Answer = &querypb.Reply_Locations{Locations: list}
	case *querypb.ListRestores:
		reply.Answer = &querypb.Reply_Restores{Restores: &querypb.RestoreList{Restores: []*querypb.Restore{{Store: "counts", Partition: 1, Progress: &querypb.Progress{Restored: 1, Remaining: 2}, LeftMs: 1500}}}}
	}
	return reply, nil
}

func (f *full) Partitions(context.Context, string) (int32, error) {
	if f.failure != nil {
		return 0, f.failure
	}
	return 4, nil
}

func described(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(httpapi.Description())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	openapi3filter.RegisterBodyDecoder(httpapi.ProtobufType, openapi3filter.FileBodyDecoder)
	return doc, router
}

// The page of the documentation is the description that is served.
func TestDescriptionIsTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil || !bytes.Equal(page, httpapi.Description()) {
		t.Fatal("docs/openapi.yaml is not query/httpapi/openapi.yaml: copy it", err)
	}
	w := httptest.NewRecorder()
	httpapi.Handler(&full{}, nil).ServeHTTP(w, httptest.NewRequest("GET", "/openapi.yaml", nil))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), page) {
		t.Error(w.Code)
	}
}

// The handler's routes and the description's are the same.
func TestDescriptionHasEveryRoute(t *testing.T) {
	doc, _ := described(t)
	var want []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			want = append(want, method+" "+path)
		}
	}
	got := httpapi.Routes()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the handler has %v\nthe description has %v", got, want)
	}
	kinds := doc.Components.Schemas["Problem"].Value.Properties["kind"].Value.Enum
	var names []any
	for _, k := range query.Kinds() {
		names = append(names, k.String())
	}
	if !slices.Equal(kinds, names) {
		t.Errorf("the description's kinds are %v", kinds)
	}
}

// requests has one request for each route, and for each kind of answer that is not a failure.
func requests(t *testing.T) (all []*http.Request) {
	question, err := proto.Marshal(&querypb.Get{Key: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/livez", "/readyz", "/readyz?verbose", "/startupz", "/startupz?verbose", "/metrics", "/openapi.yaml", "/stores", "/stores/counts/keys/the", "/stores/counts/keys/absent", "/stores/counts/keys?key=a&key=absent",
		"/stores/counts/all", "/stores/counts/range?from=a&to=b&limit=3", "/stores/counts/prefix?prefix=a", "/stores/counts/count", "/stores/counts/count?approximate=true",
		"/stores/perTen/windows?key_from=a&key_to=b&from=1&to=9&reverse=true", "/stores/perTen/windows", "/stores/perTen/windows/a?time=5", "/stores/perTen/keys/a@5",
		"/stores/visits/sessions", "/stores/visits/sessions/a?earliest_end=1&latest_start=9&limit=2", "/stores/visits/keys/a@5..6",
		"/owners/counts", "/owners/counts/keys/the", "/progress", "/progress/counts", "/tree", "/tasks", "/events"} {
		all = append(all, httptest.NewRequest("GET", path, nil))
	}
	post := func(path, contentType, body string) {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		all = append(all, r)
	}
	post("/stores/counts/keys", "application/json", `{"keys": ["a", "absent"]}`)
	post("/ask/Get", httpapi.ProtobufType, string(question))
	all = append(all, order("/tasks/0_3/skip", confirmation))
	return all
}

// Every answer, and every failure of every kind at every route, is as the description says.
func TestAnswersMatchTheDescription(t *testing.T) {
	_, router := described(t)
	check := func(n *operated) (routes map[string]bool) {
		routes = map[string]bool{}
		for _, r := range requests(t) {
			what := fmt.Sprint(r.Method, " ", r.URL, " ", n.failure)
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			route, params, err := router.FindRoute(r)
			if err != nil {
				t.Fatal(what, err)
			}
			routes[r.Method+" "+route.Path] = true
			in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
			if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
				t.Error(what, err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			w := httptest.NewRecorder()
			httpapi.Handler(n, []httpapi.Store{words, windowed("perTen", "window"), windowed("visits", "session")}).ServeHTTP(w, r)
			out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: w.Code, Header: w.Header(), Options: in.Options}
			if err := openapi3filter.ValidateResponse(t.Context(), out.SetBodyBytes(w.Body.Bytes())); err != nil {
				t.Error(what, err)
			}
			if n.failure == nil && w.Code != http.StatusOK && !strings.Contains(what, "/absent") {
				t.Error(what, w.Code, w.Body)
			}
		}
		return routes
	}
	running := fake{state: lifecycle.NodeRunning, threads: []lifecycle.ThreadStatus{{Name: "thread-1", Cause: errors.New("broken")}}}
	if routes := check(&operated{full: full{fake: running}}); len(routes) != len(httpapi.Routes()) {
		t.Errorf("only %v were tried", routes)
	}
	for _, k := range query.Kinds() {
		f := query.New(k, "counts", 2)
		f.Owner = "there:1"
		check(&operated{full: full{failure: f, fake: running}})
	}
	for _, k := range []httpapi.OrderKind{httpapi.TaskNotHere, httpapi.NotQuarantined, httpapi.OtherRecord, httpapi.OrderPending, httpapi.OrderLost,
		httpapi.RecordFails, httpapi.NoDeadLetter, httpapi.OrderUnknown, httpapi.NotAllowed, httpapi.NoOperator} {
		check(&operated{full: full{fake: running, failure: query.New(query.StoreFailure, "counts", 2)}, refusal: &httpapi.OrderError{Kind: k, Detail: "why"}})
	}
}
