package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/query/httpapi"
)

// Profiles are for those who may operate, and where nobody is told apart for this machine; what else is asked goes on to the node.
func TestProfilesAreForOperators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("reader a-secret-of-the-reader read\nops a-secret-of-the-operator operate\nanyone - health\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := httpapi.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	open := profiles(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	guarded := httpapi.Authenticate(tokens, open)
	for _, c := range []struct {
		h                       http.Handler
		from, path, token, host string
		want                    int
	}{
		{open, "127.0.0.1:1", "/debug/pprof/", "", "127.0.0.1:8080", http.StatusOK},
		{open, "127.0.0.1:1", "/debug/pprof/goroutine", "", "127.0.0.1:8080", http.StatusOK},
		{open, "127.0.0.1:1", "/debug/pprof/cmdline", "", "127.0.0.1:8080", http.StatusOK},
		{open, "192.0.2.1:1", "/debug/pprof/heap", "", "127.0.0.1:8080", http.StatusForbidden},
		{open, "127.0.0.1:1", "/debug/pprof/heap", "", "rebound.example:8080", http.StatusForbidden},
		{guarded, "192.0.2.1:1", "/debug/pprof/heap", "a-secret-of-the-operator", "node.example:8080", http.StatusOK},
		{open, "192.0.2.1:1", "/livez", "", "127.0.0.1:8080", http.StatusTeapot},
		{guarded, "192.0.2.1:1", "/debug/pprof/heap", "a-secret-of-the-operator", "127.0.0.1:8080", http.StatusOK},
		{guarded, "192.0.2.1:1", "/debug/pprof/heap", "a-secret-of-the-reader", "127.0.0.1:8080", http.StatusForbidden},
		{guarded, "127.0.0.1:1", "/debug/pprof/cmdline", "", "127.0.0.1:8080", http.StatusUnauthorized},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s from %s: %d, not %d", c.path, c.from, w.Code, c.want)
		}
	}
}
