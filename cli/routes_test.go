package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
)

// The application's routes come before the node's paths, and where callers are known they need the right to read.
func TestRoutes(t *testing.T) {
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) })
	}
	app := App{Routes: func(query.Client) map[string]http.Handler { return map[string]http.Handler{"GET /own": says("own")} }}
	n := handlerNode{fakeNode{newWorld()}, says("node")}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("reader a-secret-of-the-reader read\nprobes - health\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := httpapi.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	get := func(h http.Handler, path, token string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return http.StatusText(w.Code)
		}
		return w.Body.String()
	}
	open, guarded := app.handler(n), httpapi.Authenticate(tokens, app.handler(n))
	for _, test := range []struct {
		h                 http.Handler
		path, token, want string
	}{
		{open, "/own", "", "own"}, {open, "/stores/s/keys/a%2F%2Fb", "", "node"}, {open, "/", "", "node"},
		{guarded, "/own", "a-secret-of-the-reader", "own"}, {guarded, "/own", "", "Unauthorized"}, {guarded, "/livez", "", "node"},
		{App{}.handler(n), "/own", "", "node"},
	} {
		if got := get(test.h, test.path, test.token); got != test.want {
			t.Errorf("%s with %q: %s, want %s", test.path, test.token, got, test.want)
		}
	}
}

type handlerNode struct {
	fakeNode
	h http.Handler
}

func (n handlerNode) Handler() http.Handler { return n.h }
