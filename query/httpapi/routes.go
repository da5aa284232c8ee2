package httpapi

import (
	_ "embed"
	"net/http"
	"strings"
)

// route is one row of the interface.
type route struct {
	method, path string
	serve        func(*handler) http.HandlerFunc
}

// routes is the whole interface; openapi.yaml describes the same, and a test compares the two.
var routes = []route{
	{"GET", "/livez", func(h *handler) http.HandlerFunc { return h.live }},
	{"GET", "/readyz", func(h *handler) http.HandlerFunc { return h.ready }},
	{"GET", "/metrics", func(h *handler) http.HandlerFunc { return h.metrics }},
	{"GET", "/openapi.yaml", func(*handler) http.HandlerFunc { return describe }},
	{"GET", "/stores", func(h *handler) http.HandlerFunc { return h.list }},
	{"GET", "/stores/{store}/keys/{key...}", func(h *handler) http.HandlerFunc { return h.get }},
	{"GET", "/stores/{store}/keys", func(h *handler) http.HandlerFunc { return h.getMany }},
	{"POST", "/stores/{store}/keys", func(h *handler) http.HandlerFunc { return h.postMany }},
	{"GET", "/stores/{store}/all", func(h *handler) http.HandlerFunc { return h.all }},
	{"GET", "/stores/{store}/range", func(h *handler) http.HandlerFunc { return h.between }},
	{"GET", "/stores/{store}/prefix", func(h *handler) http.HandlerFunc { return h.prefix }},
	{"GET", "/stores/{store}/windows", func(h *handler) http.HandlerFunc { return h.windows }},
	{"GET", "/stores/{store}/windows/{key...}", func(h *handler) http.HandlerFunc { return h.windowsOf }},
	{"GET", "/stores/{store}/sessions", func(h *handler) http.HandlerFunc { return h.sessions }},
	{"GET", "/stores/{store}/sessions/{key...}", func(h *handler) http.HandlerFunc { return h.sessionsOf }},
	{"GET", "/stores/{store}/count", func(h *handler) http.HandlerFunc { return h.count }},
	{"GET", "/owners/{store}", func(h *handler) http.HandlerFunc { return h.owners }},
	{"GET", "/owners/{store}/keys/{key...}", func(h *handler) http.HandlerFunc { return h.owner }},
	{"GET", "/progress", func(h *handler) http.HandlerFunc { return h.progress }},
	{"GET", "/progress/{store}", func(h *handler) http.HandlerFunc { return h.progress }},
	{"GET", "/tree", func(h *handler) http.HandlerFunc { return h.tree }},
	{"GET", "/tasks", func(h *handler) http.HandlerFunc { return h.tasks }},
	{"POST", "/tasks/{task}/{remedy}", func(h *handler) http.HandlerFunc { return h.order }},
	{"POST", "/ask/{message}", func(h *handler) http.HandlerFunc { return h.ask }},
}

//go:embed openapi.yaml
var description []byte

// Description is the OpenAPI description of the interface, which is also served at /openapi.yaml.
func Description() []byte { return description }

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(description) // the client has gone: nobody to tell
}

// Routes are the methods and paths that a Handler answers, as the description writes them.
func Routes() (all []string) {
	for _, r := range routes {
		all = append(all, r.method+" "+strings.ReplaceAll(r.path, "...}", "}"))
	}
	return all
}
