package httpapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// still is a node that has not started.
type still struct{}

func (still) Ask(context.Context, query.Question) (*querypb.Reply, error) { return nil, nil }
func (still) Partitions(context.Context, string) (int32, error)           { return 0, nil }
func (still) State() lifecycle.Node                                       { return lifecycle.NodeCreated }
func (still) Threads() []lifecycle.ThreadStatus                           { return nil }

func ExampleHandler() {
	w := httptest.NewRecorder()
	httpapi.Handler(still{}, nil).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	fmt.Println(w.Code)
	// Output: 503
}

func ExampleAuthenticate() {
	tokens, err := httpapi.ParseTokens(strings.NewReader("shop  a-long-random-text  read:orders\nprobes  -  health\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	h := httpapi.Authenticate(tokens, httpapi.Handler(still{}, nil))
	for _, path := range []string{"/livez", "/stores/orders/all", "/stores/payments/all"} {
		r := httptest.NewRequest("GET", path, nil)
		if path != "/livez" {
			r.Header.Set("Authorization", "Bearer a-long-random-text")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(path, w.Code)
	}
	// Output:
	// /livez 200
	// /stores/orders/all 404
	// /stores/payments/all 403
}
