package page

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query/httpapi"
)

//go:embed static
var static embed.FS

//go:embed page.html
var source string

var templates = template.Must(template.New("page").Funcs(words).Parse(source))

// MaxPictures is how many pictures are made at a time; who wants one more is told to come again.
const MaxPictures = 16

// policy keeps everything out that is not the page's own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler serves the page, and leaves every other path to api.
func Handler(n Node, api http.Handler) http.Handler {
	h := &handler{node: n, api: api, places: make(chan struct{}, MaxPictures)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", httpapi.Guard(httpapi.MayProbe, h.page))
	mux.HandleFunc("GET /page/live", httpapi.Guard(httpapi.MayProbe, h.live))
	mux.HandleFunc("GET /page/{file}", h.file)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Questions of programs do not pay for another mux, and it is the interface that says what is wrong.
		if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/page/") {
			if _, pattern := mux.Handler(r); pattern != "" {
				mux.ServeHTTP(w, r)
				return
			}
		}
		api.ServeHTTP(w, r)
	})
}

type handler struct {
	node   Node
	api    http.Handler
	places chan struct{}
}

// view is what the templates get.
type view struct {
	Picture
	Question question
	Answer   *answer
	// Refresh is the page without script's way to a new picture.
	Refresh string
}

// Drawing is the graph as a drawing.
func (v *view) Drawing() *drawing { return draw(v.Graph, v.Partitions) }

// Here counts the partitions on this node.
func (v *view) Here() (n int) {
	for i := range v.Partitions {
		if v.Partitions[i].Here {
			n++
		}
	}
	return n
}

func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, "page", func(v *view) {
		v.Question = parse(r.URL.Query(), v.Stores)
		v.Refresh = "?" + r.URL.RawQuery + "#top"
		if v.Question.asked {
			v.Answer = h.ask(r, &v.Question)
		}
	})
}

func (h *handler) live(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, "live", func(*view) {})
}

// write answers with a template of the picture of this moment.
func (h *handler) write(w http.ResponseWriter, r *http.Request, name string, more func(*view)) {
	guard(w)
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The node makes pictures for others at the moment. Come again in a second.", http.StatusServiceUnavailable)
		return
	}
	v := &view{Picture: h.node.Picture(httpapi.Trusted(r))}
	more(v)
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // the reader has gone: nobody to tell
}

// guard says what a browser may do with an answer.
func guard(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
}

// files are the page's own, with their types.
var files = map[string]string{"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}

func (h *handler) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	kind, ok := files[name]
	if !ok {
		h.api.ServeHTTP(w, r) // it says that there is nothing, as it does everywhere
		return
	}
	text, err := static.ReadFile("static/" + name)
	if err != nil {
		http.Error(w, "The file cannot be read.", http.StatusInternalServerError)
		return
	}
	guard(w)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
