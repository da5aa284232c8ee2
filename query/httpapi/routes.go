package httpapi

import (
	_ "embed"
	"net/http"
	"strings"
)

// route is one row of the interface.
type route struct {
	method, path string
	right        Right
	serve        func(*handler) http.HandlerFunc
}

// routes is the whole interface; openapi.yaml describes the same, and a test compares the two. anyRead is, of a path with a
// store, the right to read that one.
var routes = []route{
	{"GET", "/livez", MayProbe, func(h *handler) http.HandlerFunc { return h.live }},
	{"GET", "/readyz", MayProbe, func(h *handler) http.HandlerFunc { return h.ready }},
	{"GET", "/startupz", MayProbe, func(h *handler) http.HandlerFunc { return h.startup }},
	{"GET", "/metrics", MayScrape, func(h *handler) http.HandlerFunc { return h.metrics }},
	{"GET", "/openapi.yaml", anyRight, func(*handler) http.HandlerFunc { return describe }},
	{"GET", "/stores", anyRead, func(h *handler) http.HandlerFunc { return h.list }},
	{"GET", "/stores/{store}/keys/{key...}", anyRead, func(h *handler) http.HandlerFunc { return h.get }},
	{"GET", "/stores/{store}/keys", anyRead, func(h *handler) http.HandlerFunc { return h.getMany }},
	{"POST", "/stores/{store}/keys", anyRead, func(h *handler) http.HandlerFunc { return h.postMany }},
	{"GET", "/stores/{store}/all", anyRead, func(h *handler) http.HandlerFunc { return h.all }},
	{"GET", "/stores/{store}/range", anyRead, func(h *handler) http.HandlerFunc { return h.between }},
	{"GET", "/stores/{store}/prefix", anyRead, func(h *handler) http.HandlerFunc { return h.prefix }},
	{"GET", "/stores/{store}/windows", anyRead, func(h *handler) http.HandlerFunc { return h.windows }},
	{"GET", "/stores/{store}/windows/{key...}", anyRead, func(h *handler) http.HandlerFunc { return h.windowsOf }},
	{"GET", "/stores/{store}/sessions", anyRead, func(h *handler) http.HandlerFunc { return h.sessions }},
	{"GET", "/stores/{store}/sessions/{key...}", anyRead, func(h *handler) http.HandlerFunc { return h.sessionsOf }},
	{"GET", "/stores/{store}/count", anyRead, func(h *handler) http.HandlerFunc { return h.count }},
	{"GET", "/owners/{store}", anyRead, func(h *handler) http.HandlerFunc { return h.owners }},
	{"GET", "/owners/{store}/keys/{key...}", anyRead, func(h *handler) http.HandlerFunc { return h.owner }},
	{"GET", "/progress", anyRead, func(h *handler) http.HandlerFunc { return h.progress }},
	{"GET", "/progress/{store}", anyRead, func(h *handler) http.HandlerFunc { return h.progress }},
	{"GET", "/tree", MayProbe, func(h *handler) http.HandlerFunc { return h.tree }},
	{"GET", "/events", MayProbe, func(h *handler) http.HandlerFunc { return h.events }},
	{"GET", "/tasks", MayProbe, func(h *handler) http.HandlerFunc { return h.tasks }},
	{"POST", "/tasks/{task}/{remedy}", MayOperate, func(h *handler) http.HandlerFunc { return h.order }},
	{"POST", "/ask/{message}", anyRead, func(h *handler) http.HandlerFunc { return h.ask }},
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
