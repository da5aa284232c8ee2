package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/record"
)

// operated is a node with one task in quarantine.
type operated struct {
	full
	refusal error
	orders  []string
	// told and over are what callers of /events are told, and when that ends: at once without them.
	told chan string
	over chan struct{}
}

var held = httpapi.Quarantined{Task: "0_3", Thread: "thread-1", Topic: "lines", Partition: 3, Offset: 41, Attempts: 2, Retry: time.UnixMilli(1), Cause: "/secret/path is broken"}

// Metrics are some text.
func (o *operated) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
}

func (o *operated) Tree(causes bool) any {
	root := map[string]any{"path": "/app", "kind": "node", "restarts": 0, "mailbox": 0}
	if causes {
		root["cause"] = held.Cause
	}
	return root
}

func (o *operated) Quarantined() []httpapi.Quarantined { return []httpapi.Quarantined{held} }

func (o *operated) Order(_ context.Context, r httpapi.Remedy, id record.TaskID, source record.TopicPartition, offset int64) error {
	o.orders = append(o.orders, fmt.Sprintf("%s %s %s %d", r, id, source, offset))
	return o.refusal
}

const confirmation = `{"topic": "lines", "partition": 3, "offset": 41}`

// order is one from this machine.
func order(path, body string) *http.Request {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "127.0.0.1:8080"
	r.Header.Set("Content-Type", "application/json")
	return r
}

func serveOnce(n httpapi.Node, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	httpapi.Handler(n, nil).ServeHTTP(w, r)
	return w
}

func TestOrdersAreGivenForTheRecordThatIsNamed(t *testing.T) {
	n := &operated{}
	for _, remedy := range []string{"skip", "retry", "dead-letter"} {
		if w := serveOnce(n, order("/tasks/0_3/"+remedy, confirmation)); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", remedy, w.Code, w.Body)
		}
	}
	if got := fmt.Sprint(n.orders); got != "[skip 0_3 lines-3 41 retry 0_3 lines-3 41 dead-letter 0_3 lines-3 41]" {
		t.Error(got)
	}
}

// Who is not on this machine, or is a page of another origin, gives no orders; nor does one who does not say which record.
func TestOrdersOfStrangersAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"another machine": {func(r *http.Request) { r.RemoteAddr = "10.0.0.7:50000" }, http.StatusForbidden},
		"another origin":  {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"cross site":      {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"a rebound name": {func(r *http.Request) {
			r.Host = "evil.example:8080"
			r.Header.Set("Origin", "http://evil.example:8080")
		}, http.StatusForbidden},
		"a form":           {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, http.StatusBadRequest},
		"a form of parts":  {func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") }, http.StatusBadRequest},
		"text":             {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusBadRequest},
		"no record":        {func(r *http.Request) { r.Body = http.NoBody }, http.StatusBadRequest},
		"no such remedy":   {func(r *http.Request) { r.URL.Path = "/tasks/0_3/forget" }, http.StatusBadRequest},
		"no task":          {func(r *http.Request) { r.URL.Path = "/tasks/03/skip" }, http.StatusBadRequest},
		"a read":           {func(r *http.Request) { r.Method = "GET" }, http.StatusMethodNotAllowed},
		"this origin":      {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8080") }, http.StatusOK},
		"under localhost":  {func(r *http.Request) { r.Host = "localhost:8080" }, http.StatusOK},
		"under an address": {func(r *http.Request) { r.Host = "[::1]"; r.RemoteAddr = "[::1]:50000" }, http.StatusOK},
	} {
		n, r := &operated{}, order("/tasks/0_3/skip", confirmation)
		c.change(r)
		w := serveOnce(n, r)
		if w.Code != c.status || len(n.orders) > 0 != (c.status == http.StatusOK) || c.status != http.StatusOK && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d with %d orders: %s", name, w.Code, len(n.orders), w.Body)
		}
	}
	for _, body := range []string{`{"topic": "lines", "partition": 3}`, `{"topic": "lines", "offset": 41}`, `[]`, `{"offset": "41"}`} {
		n := &operated{}
		if w := serveOnce(n, order("/tasks/0_3/skip", body)); w.Code != http.StatusBadRequest || len(n.orders) > 0 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

func TestRefusedOrdersAreProblems(t *testing.T) {
	for kind, want := range map[httpapi.OrderKind]struct {
		status int
		retry  string
	}{
		httpapi.TaskNotHere: {421, "elsewhere"}, httpapi.NotQuarantined: {409, "never"}, httpapi.OtherRecord: {409, "never"}, httpapi.OrderPending: {409, "here"},
		httpapi.OrderLost: {503, "here"}, httpapi.RecordFails: {422, "here"}, httpapi.NoDeadLetter: {422, "never"}, httpapi.OrderUnknown: {504, "here"},
	} {
		w := serveOnce(&operated{refusal: &httpapi.OrderError{Kind: kind, Detail: "why"}}, order("/tasks/0_3/skip", confirmation))
		var said struct {
			Type, Detail, Retry string
			Status              int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != want.status || said.Status != want.status || said.Retry != want.retry || said.Detail != "why" || said.Type != "urn:millrace:order:"+string(kind) {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
	for _, r := range []*http.Request{order("/tasks/0_3/skip", confirmation), httptest.NewRequest("GET", "/tree", nil), httptest.NewRequest("GET", "/tasks", nil)} {
		if w := serveOnce(&full{}, r); w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "urn:millrace:order:NoOperator") {
			t.Errorf("%s of a node that is not operated: %d %s", r.URL, w.Code, w.Body)
		}
	}
}

// The texts of causes, which may hold paths, are told on this machine only: in the tree, the tasks and the health.
func TestCausesAreToldHereOnly(t *testing.T) {
	n := &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}}
	for _, path := range []string{"/tree", "/tasks", "/readyz", "/livez"} {
		for from, told := range map[string]bool{"127.0.0.1:5000": true, "[::1]:5000": true, "10.0.0.7:5000": false} {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = from
			w := serveOnce(n, r)
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "/secret/path") != told {
				t.Errorf("%s from %s: %d %s", path, from, w.Code, w.Body)
			}
			if path != "/tree" && !strings.Contains(w.Body.String(), `"offset":41,"attempts":2`) {
				t.Errorf("%s does not show the task: %s", path, w.Body)
			}
		}
	}
}
