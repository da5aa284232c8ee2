package millrace_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
)

// read follows the pages of a path and gives each entry as text.
func read(t *testing.T, n *millrace.Node, path string) (entries []string) {
	t.Helper()
	for path != "" {
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		var page struct {
			Entries []struct {
				Key, Value string
				Start, End int64
			}
			Next string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatal(path, w.Code, w.Body, err)
		}
		for _, e := range page.Entries {
			entries = append(entries, fmt.Sprintf("%q %d-%d: %s", e.Key, e.Start, e.End, e.Value))
		}
		path = page.Next
	}
	return entries
}

// HTTP gives the windows and sessions of a whole node as the typed functions do.
func TestWindowsOverHTTP(t *testing.T) {
	c := cluster(t)
	views(t, c)
	n := start(t, windowCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	typed := told(t, t.Context(), n.Node)
	for path, want := range map[string][]string{
		"/stores/per-ten/windows/a?from=15&to=40":                            typed["range"],
		"/stores/per-ten/windows/a?from=15&to=40&limit=1":                    typed["range"],
		"/stores/per-ten/windows/a?from=15&to=40&reverse=true":               typed["range backwards"],
		"/stores/per-ten/windows/a?time=20":                                  {`"a" 20-30: 3`},
		"/stores/per-ten/windows/a?time=25":                                  nil,
		"/stores/per-ten/windows?time=50":                                    typed["everything at 50"],
		"/stores/visits/sessions/a":                                          typed["sessions of a"],
		"/stores/visits/sessions/aa?earliest_end=35&latest_start=60":         typed["sessions of aa"],
		"/stores/visits/sessions/aa?earliest_end=35&latest_start=60&limit=2": typed["sessions of aa"],
	} {
		if d := cmp.Diff(want, read(t, n.Node, path)); d != "" {
			t.Error(path, d)
		}
	}
	if got := read(t, n.Node, "/stores/per-ten/windows?key_from=a&key_to=a%00&from=90&to=99"); len(got) != 2 {
		t.Error(got)
	}
	every := len(read(t, n.Node, "/stores/per-ten/windows?limit=7")) + len(read(t, n.Node, "/stores/visits/sessions?limit=7"))
	if typed["all"][0] != fmt.Sprint(every) {
		t.Error(every, typed["all"])
	}
	for path, want := range map[string]string{"/stores/per-ten/keys/a@20": `"value":"3"`, "/stores/per-ten/keys/aa@50": `"value":"1"`, "/stores/visits/keys/a@0..96": `"value":"25"`} {
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, want) || !strings.Contains(body, `"position":[{"topic":"app-views-repartition"`) {
			t.Error(path, w.Code, body)
		}
	}
}
