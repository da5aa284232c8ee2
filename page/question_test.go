package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/page"
)

// What the form asks is asked at the path for the store's kind, and the answer, or the failure, is shown.
func TestQuestions(t *testing.T) {
	windows := `{"entries":[{"key":"a","start":0,"end":10000,"value":"7","timestamp":5,"partition":1}]}`
	for _, test := range []struct {
		form   url.Values
		path   string
		status int
		body   string
		want   string
	}{
		{form("counts", "get", "the", ""), "/stores/counts/keys/the", 200, `{"found":true,"key":"the","value":"12","timestamp":5,"partition":3}`, "12 Key the, partition 3, record of 1970-01-01 00:00:00.005. Status 200"},
		{form("counts", "get", "a/b?", ""), "/stores/counts/keys/a%2Fb%3F", 404, `{"found":false,"key":"a/b?","partition":3}`, "There is no key a/b?: its partition, 3, has none."},
		{form("counts", "get", "..", ""), "/stores/counts/keys/%2E%2E", 404, `{"found":false,"key":"..","partition":3}`, "There is no key .."},
		{form("perTen", "get", "a", ""), "/stores/perTen/windows/a?limit=50", 200, windows, "a 1970-01-01 00:00:00.000 1970-01-01 00:00:10.000 7 1"},
		{form("visits", "all", "", ""), "/stores/visits/sessions?limit=50", 200, `{"entries":[]}`, "No entries here."},
		{form("counts", "all", "", ""), "/stores/counts/all?limit=50", 200, `{"entries":[{"key":"k","value":"<b>"}],"next":"/stores/counts/all?limit=50&resume=xy"}`, "Key Value Partition k <b> 0 The next entries"},
		{form("counts", "range", "a", ""), "/stores/counts/range?from=a&limit=50", 200, `{"entries":[]}`, "No entries here."},
		{form("perTen", "range", "a", "b"), "/stores/perTen/windows?key_from=a&key_to=b&limit=50", 200, windows, "Start End"},
		{form("counts", "prefix", "a", ""), "/stores/counts/prefix?limit=50&prefix=a", 200, `{"entries":[]}`, "No entries here."},
		{form("counts", "count", "", ""), "/stores/counts/count", 200, `{"entries":0}`, "0 entries"},
		{form("counts", "owners", "", ""), "/owners/counts", 200, `[{"partition":0,"owner":"there:1","state":"none"}]`, "0 there:1 no none"},
		{form("nowhere", "", "k", ""), "/stores/nowhere/keys/k", 404, `{"title":"UnknownStateStore","detail":"there are counts","retry":"never"}`, "✖ UnknownStateStore there are counts What to do: change the question"},
		{form("counts", "get", "the", ""), "/stores/counts/keys/the", 503, `{"title":"StreamThreadRebalancing","detail":"thread-1","retry":"here","retry_after":0.5}`, "What to do: ask here again in 0.5 s."},
		{form("counts", "get", "the", ""), "/stores/counts/keys/the", 421, `{"title":"StateStoreMigrated","detail":"gone","retry":"rediscover","owner":"there:1"}`, "What to do: ask the owner, there:1."},
		{form("counts", "get", "the", ""), "/stores/counts/keys/the", 503, `{"title":"StreamThreadNotRunning","detail":"gone","retry":"elsewhere"}`, "ask another node."},
		{form("counts", "get", "the", ""), "/stores/counts/keys/the", 500, `what?`, "StoreFailure the answer cannot be shown"},
	} {
		api := &answering{test.status, test.body, nil}
		d := parse(t, get(t, page.Handler(everything(lifecycle.NodeRunning), api), "/?"+test.form.Encode()))
		if len(api.asked) != 1 || api.asked[0] != "GET "+test.path {
			t.Errorf("%v asked %v, not %s", test.form, api.asked, test.path)
		}
		if got := text(d.byID("answer")); !strings.Contains(got, test.want) {
			t.Errorf("%v: %s\nlacks %s", test.form, got, test.want)
		}
		chosen := d.all(func(n *html.Node) bool { return n.Data == "option" && hasAttribute(n, "selected") })
		if test.form.Get("store") != "nowhere" && (len(chosen) != 2 || attribute(chosen[0], "value") != test.form.Get("store")) {
			t.Errorf("%v: %d options stay chosen", test.form, len(chosen))
		}
		if attribute(d.byID("ask-key"), "value") != test.form.Get("key") {
			t.Error("the key does not stay in the form")
		}
	}
}

func form(store, ask, key, to string) url.Values {
	return url.Values{"store": {store}, "ask": {ask}, "key": {key}, "to": {to}}
}

func hasAttribute(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

// The next page is a link that the form could have made.
func TestNextEntries(t *testing.T) {
	api := &answering{200, `{"entries":[{"key":"k","value":"v"}],"next":"/stores/counts/all?limit=50&resume=x-y_"}`, nil}
	h := page.Handler(everything(lifecycle.NodeRunning), api)
	d := parse(t, get(t, h, "/?store=counts&ask=all"))
	for _, a := range d.all(named("a")) {
		if text(a) == "The next entries" {
			next, _, _ := strings.Cut(attribute(a, "href"), "#")
			parse(t, get(t, h, "/"+next))
		}
	}
	if want := "GET /stores/counts/all?limit=50&resume=x-y_"; len(api.asked) != 2 || api.asked[1] != want {
		t.Errorf("%v, want %s", api.asked, want)
	}
}

// The interface knows who asks: what it tells those on its own machine is for them.
func TestQuestionsAreTheReaders(t *testing.T) {
	seen := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r.RemoteAddr })
	get(t, page.Handler(everything(lifecycle.NodeRunning), api), "/?store=counts&ask=count")
	if seen != "127.0.0.1:5" {
		t.Error(seen)
	}
}
