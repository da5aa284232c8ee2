package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/page"
	"github.com/millrace-io/millrace/topology"
)

// A node's Handler has its page at /. This is one of something that only has a state.
func ExampleHandler() {
	node := &still{page.Picture{App: "orders", State: lifecycle.NodeRunning, Graph: &topology.Graph{}}}
	w := httptest.NewRecorder()
	page.Handler(node, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "<title>orders: RUNNING</title>"))
	// Output: 200 true
}
