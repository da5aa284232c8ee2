package page_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/page"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/topology"
)

// evil is what must come out as it is, and never as HTML.
const evil = `<script>alert("1")</script>`

// still is a node that never changes; its cause is for those on its machine.
type still struct{ picture page.Picture }

// Picture implements page.Node.
func (s *still) Picture(causes bool) page.Picture {
	p := s.picture
	if p.Cause != "" && !causes {
		p.Cause = httpapi.Silenced
	}
	return p
}

// everything has each part of the page, and evil wherever a text comes from elsewhere.
func everything(state lifecycle.Node) *still {
	at, lag, rate := time.UnixMilli(1_700_000_000_000), int64(1_234_567), 2.25
	task := page.Place{Name: "task-0_0", Kind: "task", State: "RUNNING", Epoch: 2, Flags: []string{"quarantined"}, Cause: evil}
	thread := page.Place{Name: "thread-1", Kind: "thread", State: "REBALANCING", Since: at, Epoch: 2, Restarts: 1, Cause: "broken " + evil, Retry: at,
		Mailbox: 3, Flags: []string{"stuck", "disk-full"}, Children: []page.Place{task}}
	return &still{page.Picture{App: "app " + evil, Time: at, State: state, Cause: "cause " + evil, Measured: true,
		Tree:        page.Place{Name: "app", Kind: "node", State: state.String(), Children: []page.Place{thread, {Name: "query", Kind: "query"}}},
		Transitions: []page.Transition{{Time: at, Path: "/app/thread-1", Old: "RUNNING", New: "REBALANCING", Epoch: 2, Flags: []string{"stuck"}, Cause: evil}, {Time: at, Path: "/app/thread-2", Old: "RUNNING"}},
		Graph: &topology.Graph{Places: []topology.Place{{Label: evil}, {Label: "tasks 0_*", Kind: topology.TasksPlace}, {Label: "counts", Kind: topology.StorePlace}},
			Edges: [][2]int{{0, 1}, {1, 2}, {1, 0}}},
		Description: "Topologies:\n" + evil,
		Partitions: []page.Partition{
			{Task: "0_0", Stores: []string{"counts"}, Owner: "thread-1", Here: true, State: "RUNNING", Lag: &lag, Rate: &rate,
				Quarantine: &httpapi.Quarantined{Topic: "lines", Partition: 3, Offset: 41, Attempts: 2, Retry: at, Cause: evil}},
			{Task: "0_1", Stores: []string{"counts"}, Here: true, Owner: "thread-1", State: "RESTORING", Restore: &httpapi.RestoreProgress{Store: "counts", Partition: 1, Restored: 300, Remaining: 100, Rate: 150, Left: 61}},
			{Task: "0_2", Stores: []string{"counts"}, Owner: "there:1"}, {Task: "0_3"}},
		Stores: []page.Store{{Name: "counts", Kind: "key-value"}, {Name: "perTen", Kind: "window"}, {Name: "visits", Kind: "session"}}}}
}

// get asks as somebody on the node's own machine would.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = "127.0.0.1:5"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// dom is a parsed page.
type dom struct {
	t    *testing.T
	root *html.Node
}

func parse(t *testing.T, w *httptest.ResponseRecorder) *dom {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	root, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	return &dom{t, root}
}

// all are the elements that want says yes to.
func (d *dom) all(want func(*html.Node) bool) (found []*html.Node) {
	for n := range d.root.Descendants() {
		if n.Type == html.ElementNode && want(n) {
			found = append(found, n)
		}
	}
	return found
}

func named(names ...string) func(*html.Node) bool {
	return func(n *html.Node) bool { return slices.Contains(names, n.Data) }
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// text is all the text in an element, with one space between its words.
func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case named("p", "li", "td", "th", "option", "text", "div")(c):
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (d *dom) byID(id string) *html.Node {
	d.t.Helper()
	found := d.all(func(n *html.Node) bool { return attribute(n, "id") == id })
	if len(found) != 1 {
		d.t.Fatalf("%d elements have the id %s", len(found), id)
	}
	return found[0]
}

// answering is an interface with one answer, which notes what it was asked.
type answering struct {
	status int
	body   string
	asked  []string
}

// ServeHTTP implements http.Handler.
func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.Method+" "+r.URL.RequestURI())
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// Nothing on the page is from elsewhere or runs from within it, whatever the texts are that it shows; and what they are, they stay.
func TestPageLetsNothingIn(t *testing.T) {
	api := &answering{200, fmt.Sprintf(`{"found":true,"key":%q,"value":%q}`, evil, evil), nil}
	h := page.Handler(everything(lifecycle.NodeError), api)
	w := get(t, h, "/?store=counts&ask=get&key=%3Cscript%3E")
	csp := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe") {
		t.Error(csp)
	}
	d := parse(t, w)
	scripts := d.all(named("script"))
	if len(scripts) != 1 || attribute(scripts[0], "src") != "page/script.js" || text(scripts[0]) != "" {
		t.Errorf("%d scripts", len(scripts))
	}
	if styles := d.all(named("style", "iframe", "object", "base")); len(styles) != 0 {
		t.Error(styles[0].Data)
	}
	for _, n := range d.all(func(*html.Node) bool { return true }) {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s has %s", n.Data, a.Key)
			}
			if (a.Key == "src" || a.Key == "href") && (strings.Contains(a.Val, ":") || strings.HasPrefix(a.Val, "/")) {
				t.Errorf("%s leads to %s", n.Data, a.Val)
			}
		}
	}
	if n := strings.Count(text(d.root), evil); n < 9 {
		t.Errorf("the text is there %d times only", n)
	}
}

// Who cannot see the page is told what each control, part and picture is.
func TestPageIsForReaders(t *testing.T) {
	d := parse(t, get(t, page.Handler(everything(lifecycle.NodeRunning), &answering{}), "/"))
	labels := map[string]bool{}
	for _, l := range d.all(named("label")) {
		d.byID(attribute(l, "for"))
		labels[attribute(l, "for")] = text(l) != ""
	}
	controls := d.all(named("input", "select", "textarea"))
	for _, c := range controls {
		if !labels[attribute(c, "id")] {
			t.Errorf("%s %s has no label", c.Data, attribute(c, "name"))
		}
	}
	if len(controls) != 4 || len(d.all(named("main"))) != 1 || len(d.all(named("nav"))) != 1 || len(d.all(named("h1"))) != 1 || attribute(d.all(named("html"))[0], "lang") != "en" {
		t.Error("a landmark is missing, or a control")
	}
	for _, n := range d.all(func(n *html.Node) bool { return attribute(n, "aria-labelledby") != "" }) {
		if text(d.byID(attribute(n, "aria-labelledby"))) == "" {
			t.Errorf("%s has an empty name", n.Data)
		}
	}
	if attribute(d.byID("news"), "aria-live") != "polite" || attribute(d.byID("link"), "role") != "status" {
		t.Error("what is new is not told")
	}
	for _, b := range d.all(func(n *html.Node) bool { return strings.HasPrefix(attribute(n, "class"), "badge") }) {
		if strings.TrimLeft(text(b), "●◐✖○ ") == "" {
			t.Error("a state is there as a colour only")
		}
	}
	for _, a := range d.all(named("a")) {
		if id, ok := strings.CutPrefix(attribute(a, "href"), "#"); ok {
			d.byID(id)
		}
	}
}

// The page says in which state its node is, in words too.
func TestPageSaysHowTheNodeIs(t *testing.T) {
	for state, want := range map[lifecycle.Node]string{
		lifecycle.NodeCreated: "It is starting", lifecycle.NodeRebalancing: "It is restoring 1 of its partitions", lifecycle.NodeRunning: "It processes",
		lifecycle.NodePendingShutdown: "It is ending", lifecycle.NodeNotRunning: "It has ended", lifecycle.NodePendingError: "It has failed, and is ending",
		lifecycle.NodeError: "It has failed and does nothing",
	} {
		d := parse(t, get(t, page.Handler(everything(state), &answering{}), "/"))
		if got := text(d.byID("state")); !strings.Contains(got, state.String()) || !strings.Contains(got, want) || !strings.Contains(got, "cause "+evil) {
			t.Error(got)
		}
	}
	empty := parse(t, get(t, page.Handler(&still{page.Picture{App: "app", State: lifecycle.NodeCreated, Graph: &topology.Graph{}}}, &answering{}), "/"))
	if got := text(empty.root); !strings.Contains(got, "not known yet") || !strings.Contains(got, "no store") || !strings.Contains(got, "none yet") {
		t.Error(got)
	}
}

// Each part shows what the picture has of it.
func TestPageShowsThePicture(t *testing.T) {
	d := parse(t, get(t, page.Handler(everything(lifecycle.NodeRebalancing), &answering{}), "/"))
	for id, wants := range map[string][]string{
		"tree":        {"thread-1 ◐ REBALANCING stuck disk-full thread, incarnation 2, restarts 1, 3 waiting, since 22:13:20.000, starts again at", "Last cause: broken", "task-0_0 ● RUNNING quarantined"},
		"partitions":  {"2 of 4 are on this node", "thread-1, here", "1\u202f234\u202f567", "2.2/s", "75 % of 400 records, 150/s, 1m1s left", "Record lines-3 offset 41 has failed 2 times", "there:1 not here", "not known"},
		"topology":    {"tasks 0_*", "2 here, 2.2/s", "counts"},
		"transitions": {"/app/thread-1 RUNNING → ◐ REBALANCING stuck incarnation 2", "gone"},
	} {
		for _, want := range wants {
			if got := text(d.byID(id)); !strings.Contains(got, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s lacks %s: %s", id, want, got)
			}
		}
	}
}

// The parts that change are there alone too, and the question is not among them: who types is not disturbed.
func TestLivePartsAreThoseOfThePage(t *testing.T) {
	h := page.Handler(everything(lifecycle.NodeRunning), &answering{})
	whole, parts := parse(t, get(t, h, "/")), parse(t, get(t, h, "/page/live"))
	live := func(n *html.Node) bool {
		return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-live" })
	}
	want := whole.all(live)
	if len(want) != 5 {
		t.Fatalf("%d parts", len(want))
	}
	for _, n := range want {
		if got := parts.byID(attribute(n, "id")); text(got) != text(n) {
			t.Errorf("%s differs", attribute(n, "id"))
		}
		if len((&dom{t, n}).all(named("form", "input"))) != 0 {
			t.Errorf("%s has a form", attribute(n, "id"))
		}
	}
}

// Causes are for this machine.
func TestPageKeepsCauses(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "192.0.2.1:5"
	w := httptest.NewRecorder()
	page.Handler(everything(lifecycle.NodeError), &answering{}).ServeHTTP(w, r)
	if got := text(parse(t, w).byID("state")); strings.Contains(got, evil) || !strings.Contains(got, httpapi.Silenced) {
		t.Error(got)
	}
}

// Files have their types; everything else is for the interface.
func TestOtherPathsAreTheInterfaces(t *testing.T) {
	api := &answering{status: 418}
	h := page.Handler(everything(lifecycle.NodeRunning), api)
	for name, kind := range map[string]string{"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := get(t, h, "/page/"+name)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() < 100 || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Error(name, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/tree", "/page/doc.go", "/page/", "/page/static/style.css", "/stores/a%2F%2Fb/all"} {
		if w := get(t, h, path); w.Code != 418 {
			t.Error(path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("POST", "/", nil)); w.Code != 418 {
		t.Error(w.Code)
	}
}
