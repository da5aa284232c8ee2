package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// FuzzForm: whatever the form holds, the interface is asked for that store and that key, or for nothing.
func FuzzForm(f *testing.F) {
	for _, s := range [][3]string{{"counts", "get", "the"}, {"a/b", "range", "?"}, {"..", "get", "."}, {"%2E", "owners", "a%2Fb"}, {"s", "get", "/"}, {"s", "prefix", "\x00"}, {"s", "", ""}} {
		f.Add(s[0], s[1], s[2], "to", "resume", "window")
		f.Add(s[0], s[1], s[2], "", "", "")
	}
	f.Fuzz(func(t *testing.T, store, ask, key, to, resume, kind string) {
		q := parse(url.Values{"store": {store}, "ask": {ask}, "key": {key}, "to": {to}, "resume": {resume}}, []Store{{Name: store, Kind: kind}})
		if !q.asked || store == "/" { // which a mux takes for the end of a path; no store can be called so
			return
		}
		var got *http.Request
		api := http.NewServeMux()
		for _, pattern := range []string{"/owners/{store}", "/stores/{store}/{of}", "/stores/{store}/keys/{key...}", "/stores/{store}/windows/{key...}", "/stores/{store}/sessions/{key...}"} {
			api.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = r })
		}
		h := &handler{api: api}
		a := h.ask(httptest.NewRequest("GET", "/", nil), &q)
		if got == nil {
			t.Fatalf("%+v is asked at %s: %+v", q, a.Path, a.Failure)
		}
		if got.PathValue("store") != store {
			t.Fatalf("%q is asked of %q", store, got.PathValue("store"))
		}
		if q.Ask == "get" && got.PathValue("key") != key {
			t.Fatalf("key %q is asked as %q", key, got.PathValue("key"))
		}
		if v := got.URL.Query(); q.Ask == "prefix" && v.Get("prefix") != key || v.Get("from")+v.Get("key_from") != key && q.Ask == "range" {
			t.Fatalf("%+v is asked with %v", q, v)
		}
	})
}
