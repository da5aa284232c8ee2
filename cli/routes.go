package cli

import (
	"net/http"

	"github.com/millrace-io/millrace/query/httpapi"
)

// handler is what --listen serves: the application's routes, for which callers that are told apart need the right to read, and
// the node for the rest. The node is not put into the mux, which would redirect a path whose key holds two slashes.
func (a App) handler(n node) http.Handler {
	rest := n.Handler()
	if a.Routes == nil {
		return rest
	}
	own := http.NewServeMux()
	for pattern, h := range a.Routes(n) {
		own.Handle(pattern, httpapi.Guard(httpapi.MayRead, h.ServeHTTP))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := own.Handler(r); pattern != "" {
			own.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}
