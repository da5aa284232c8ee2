package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// need is the right of each route that is not about a store, as the documents give it. Those about one need the right to read
// it, and those without a store in the path any right to read.
var need = map[string]httpapi.Right{
	"GET /livez": httpapi.MayProbe, "GET /readyz": httpapi.MayProbe, "GET /startupz": httpapi.MayProbe, "GET /tree": httpapi.MayProbe, "GET /tasks": httpapi.MayProbe, "GET /events": httpapi.MayProbe,
	"GET /metrics": httpapi.MayScrape, "POST /tasks/{task}/{remedy}": httpapi.MayOperate, "GET /openapi.yaml": "",
}

// granted says whether a right, alone, lets a request through.
func granted(has httpapi.Right, route, store string) bool {
	want, other := need[route]
	one, isOne := strings.CutPrefix(string(has), "read:")
	switch {
	case other && want == "":
		return true
	case other:
		return has == want || want == httpapi.MayProbe && has == httpapi.MayOperate
	case store == "":
		return isOne || has == httpapi.MayRead
	}
	return has == httpapi.MayRead || isOne && one == store
}

// storeOf is the store that a request is about; of /ask, the one of its question.
func storeOf(r *http.Request) string {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) > 2 && slices.Contains([]string{"stores", "owners", "progress"}, parts[1]) {
		return parts[2]
	}
	if parts[1] == "ask" {
		return "counts"
	}
	return ""
}

// secretOf is the token with one right.
func secretOf(right httpapi.Right) string { return "a-secret-that-is-long-" + string(right) }

// rights are every right alone, of the stores that there are and of one that there is not.
var rights = []httpapi.Right{httpapi.MayRead, httpapi.MayOperate, httpapi.MayScrape, httpapi.MayProbe,
	httpapi.MayReadStore("counts"), httpapi.MayReadStore("perTen"), httpapi.MayReadStore("visits"), httpapi.MayReadStore("misspelt")}

// oneEach knows a caller with each right alone.
func oneEach(t *testing.T) *httpapi.Tokens {
	t.Helper()
	var lines strings.Builder
	for _, r := range rights {
		lines.WriteString(strings.ReplaceAll(string(r), ":", "-") + " " + secretOf(r) + " " + string(r) + "\n")
	}
	tokens, err := httpapi.ParseTokens(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func guarded(tokens *httpapi.Tokens, n httpapi.Node) http.Handler {
	return httpapi.Authenticate(tokens, httpapi.Handler(n, []httpapi.Store{words, windowed("perTen", "window"), windowed("visits", "session")}))
}

func ask(h http.Handler, r *http.Request, headers ...string) *httptest.ResponseRecorder {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	again.Header["Authorization"] = headers
	w := httptest.NewRecorder()
	h.ServeHTTP(w, again)
	return w
}

// asking are the requests of the description's test, with a question of querypb that names its store.
func asking(t *testing.T) (all []*http.Request) {
	for _, r := range requests(t) {
		if r.URL.Path == "/ask/Get" {
			q, err := proto.Marshal(&querypb.Get{About: &querypb.About{Store: "counts"}, Key: []byte("k")})
			if err != nil {
				t.Fatal(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(q))
		}
		all = append(all, r)
	}
	return all
}

// Every endpoint with every right alone: the caller is let through or answered 403, and the node is not asked.
func TestEveryRouteNeedsItsRight(t *testing.T) {
	_, router := described(t)
	tokens, tried := oneEach(t), map[string]bool{}
	n := &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}}
	h := guarded(tokens, n)
	for _, r := range asking(t) {
		found, _, err := router.FindRoute(r)
		if err != nil {
			t.Fatal(err)
		}
		route := r.Method + " " + found.Path
		tried[route] = true
		for _, right := range rights {
			n.orders = nil
			w := ask(h, r, "Bearer "+secretOf(right))
			want := granted(right, route, storeOf(r))
			if forbidden := w.Code == http.StatusForbidden; forbidden == want {
				t.Errorf("%s %s with %s: %d %s", r.Method, r.URL, right, w.Code, w.Body)
			} else if forbidden {
				isProblem(t, w, "urn:millrace:failure:Forbidden")
			}
			if len(n.orders) > 0 && right != httpapi.MayOperate {
				t.Errorf("an order was given with %s", right)
			}
		}
	}
	if len(tried) != len(httpapi.Routes()) {
		t.Errorf("of %v only %v were tried", httpapi.Routes(), tried)
	}
}

func isProblem(t *testing.T, w *httptest.ResponseRecorder, kind string) {
	t.Helper()
	var p struct {
		Type, Detail string
		Status       int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Type != kind || p.Status != w.Code || p.Detail == "" || w.Header().Get("Content-Type") != "application/problem+json" ||
		!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer ") {
		t.Errorf("%v %s: %v", w.Header(), w.Body, err)
	}
	if strings.Contains(w.Body.String(), "a-secret") {
		t.Errorf("a secret is told: %s", w.Body)
	}
}

// Who is not known is answered 401 everywhere, at paths that do not exist too.
func TestStrangersAreAskedForAToken(t *testing.T) {
	n := &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}}
	h, good := guarded(oneEach(t), n), "Bearer "+secretOf(httpapi.MayRead)
	all := append(asking(t), httptest.NewRequest("GET", "/nothing", nil), httptest.NewRequest("DELETE", "/stores", nil))
	for _, r := range all {
		for name, headers := range map[string][]string{
			"none": nil, "wrong": {good + "x"}, "half": {good[:20]}, "empty": {""}, "no secret": {"Bearer "}, "basic": {"Basic " + secretOf(httpapi.MayRead)}, "two": {good, good},
		} {
			w := ask(h, r, headers...)
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s with %s: %d %s", r.Method, r.URL, name, w.Code, w.Body)
				continue
			}
			isProblem(t, w, "urn:millrace:failure:Unauthenticated")
		}
	}
	if w := ask(h, httptest.NewRequest("GET", "/nothing", nil), good); w.Code != http.StatusNotFound || len(n.orders) > 0 {
		t.Error(w.Code, n.orders)
	}
	if w := ask(h, httptest.NewRequest("GET", "/stores", nil), "bearer "+secretOf(httpapi.MayRead)); w.Code != http.StatusOK {
		t.Error("the scheme is not case-insensitive:", w.Code)
	}
}

// Lists show what the caller may read, and a name that does not exist does not bring those to light that do.
func TestListsShowWhatMayBeRead(t *testing.T) {
	n := &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}}
	h := guarded(oneEach(t), n)
	for right, want := range map[httpapi.Right]string{httpapi.MayRead: "counts perTen visits", httpapi.MayReadStore("perTen"): "perTen", httpapi.MayReadStore("misspelt"): ""} {
		var list []struct{ Name string }
		w := ask(h, httptest.NewRequest("GET", "/stores", nil), "Bearer "+secretOf(right))
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err, w.Body)
		}
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with %s: %s", right, got)
		}
	}
	for right, want := range map[httpapi.Right]bool{httpapi.MayRead: true, httpapi.MayReadStore("counts"): true, httpapi.MayReadStore("perTen"): false} {
		for _, path := range []string{"/progress", "/ask/ListRestores", "/ask/ListStores"} {
			r := httptest.NewRequest("GET", path, nil)
			if strings.HasPrefix(path, "/ask") {
				r = httptest.NewRequest("POST", path, nil)
				r.Header.Set("Content-Type", httpapi.ProtobufType)
			}
			if w := ask(h, r, "Bearer "+secretOf(right)); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "counts") != want {
				t.Errorf("%s with %s: %d %q", path, right, w.Code, w.Body)
			}
		}
	}
	unknown := query.New(query.UnknownStateStore, "misspelt", query.NoPartition)
	unknown.Detail = `it has "counts"`
	h = guarded(oneEach(t), &operated{full: full{failure: unknown}})
	named, err := proto.Marshal(&querypb.Get{About: &querypb.About{Store: "misspelt"}})
	if err != nil {
		t.Fatal(err)
	}
	post := httptest.NewRequest("POST", "/ask/Get", bytes.NewReader(named))
	post.Header.Set("Content-Type", httpapi.ProtobufType)
	for _, r := range []*http.Request{httptest.NewRequest("GET", "/stores/misspelt/all", nil), post} {
		if w := ask(h, r, "Bearer "+secretOf(httpapi.MayReadStore("misspelt"))); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "counts") {
			t.Errorf("%s: %d %q", r.URL, w.Code, w.Body)
		}
	}
	// A question that names no store is about all.
	post = httptest.NewRequest("POST", "/ask/Locate", nil)
	post.Header.Set("Content-Type", httpapi.ProtobufType)
	if w := ask(h, post, "Bearer "+secretOf(httpapi.MayReadStore("counts"))); w.Code != http.StatusForbidden {
		t.Error(w.Code, w.Body)
	}
}

// An operator who is known gives orders from any machine and is told causes; a probe is not, on this machine either.
func TestOperatorsAreKnown(t *testing.T) {
	n := &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}}
	h := guarded(oneEach(t), n)
	r := order("/tasks/0_3/skip", confirmation)
	r.RemoteAddr, r.Host = "10.0.0.7:5000", "node-1.example:8080"
	if w := ask(h, r, "Bearer "+secretOf(httpapi.MayOperate)); w.Code != http.StatusOK || len(n.orders) != 1 {
		t.Error(w.Code, w.Body, n.orders)
	}
	r.Header.Set("Origin", "http://evil.example")
	if w := ask(h, r, "Bearer "+secretOf(httpapi.MayOperate)); w.Code != http.StatusForbidden || len(n.orders) != 1 {
		t.Error(w.Code, w.Body, n.orders)
	}
	for _, path := range []string{"/tree", "/tasks", "/readyz"} {
		for right, from := range map[httpapi.Right]string{httpapi.MayOperate: "10.0.0.7:5000", httpapi.MayProbe: "127.0.0.1:5000"} {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = from
			w := ask(h, r, "Bearer "+secretOf(right))
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "/secret/path") != (right == httpapi.MayOperate) {
				t.Errorf("%s with %s: %d %s", path, right, w.Code, w.Body)
			}
		}
	}
}

// Callers without a token have the rights that the file gives them, and are asked for a token beyond them.
func TestCallersWithoutATokenHaveTheirRights(t *testing.T) {
	tokens, err := httpapi.ParseTokens(strings.NewReader("probes - health\nall a-secret-that-is-long read,metrics,operate\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := guarded(tokens, &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}})
	for _, r := range asking(t) {
		want := http.StatusUnauthorized
		if right, ok := need[r.Method+" "+r.URL.Path]; ok && right == httpapi.MayProbe {
			want = http.StatusOK
		}
		w := ask(h, r)
		if w.Code != want {
			t.Errorf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
		}
		if w := ask(h, r, "Bearer wrong"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s with a wrong token: %d", r.Method, r.URL, w.Code)
		}
		if w := ask(h, r, "Bearer a-secret-that-is-long"); w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden {
			t.Errorf("%s %s with all rights: %d", r.Method, r.URL, w.Code)
		}
	}
}

// A program's own handlers are guarded as the node's are.
func TestRequire(t *testing.T) {
	own := httpapi.Require(httpapi.MayOperate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := httpapi.CallerOf(r.Context())
		_, _ = io.WriteString(w, c.Name())
	}))
	h := httpapi.Authenticate(oneEach(t), own)
	r := httptest.NewRequest("GET", "/own", nil)
	if w := ask(h, r, "Bearer "+secretOf(httpapi.MayOperate)); w.Code != http.StatusOK || w.Body.String() != "operate" {
		t.Error(w.Code, w.Body)
	}
	if w := ask(h, r, "Bearer "+secretOf(httpapi.MayProbe)); w.Code != http.StatusForbidden {
		t.Error(w.Code, w.Body)
	}
	if w := ask(own, r, "Bearer "+secretOf(httpapi.MayOperate)); w.Code != http.StatusUnauthorized {
		t.Error("without Authenticate:", w.Code, w.Body)
	}
}
