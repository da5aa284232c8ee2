package page_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/page"
	"github.com/millrace-io/millrace/query/httpapi"
)

// The page is for who may see the state of the node, its causes for who may operate it, and each question for who may ask it.
func TestPageKeepsToRights(t *testing.T) {
	tokens, err := httpapi.ParseTokens(strings.NewReader("look a-secret-that-may-look health\nwork a-secret-that-may-work operate,read\nread a-secret-that-may-read read\n"))
	if err != nil {
		t.Fatal(err)
	}
	api := httpapi.Guard(httpapi.MayRead, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"entries": 7}`)) })
	h := httpapi.Authenticate(tokens, page.Handler(everything(lifecycle.NodeError), api))
	for _, test := range []struct {
		token  string
		status int
		want   string
		lacks  string
	}{
		{"", 401, "Unauthenticated", "thread-1"},
		{"read", 403, "Forbidden", "thread-1"},
		{"look", 200, "it has failed; the node", "7 entries"},
		{"work", 200, "7 entries", "it has failed; the node"},
	} {
		r := httptest.NewRequest("GET", "/?store=counts&ask=count", nil)
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer a-secret-that-may-"+test.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) || strings.Contains(w.Body.String(), test.lacks) {
			t.Errorf("%q: %d %s", test.token, w.Code, w.Body)
		}
	}
}
