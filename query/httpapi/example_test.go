package httpapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"

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
