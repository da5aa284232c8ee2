package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/query"
)

// statuses are the status codes of failures, by kind.
var statuses = map[query.Kind]int{
	query.UnknownStateStore:          http.StatusNotFound,
	query.StateStoreTypeMismatch:     http.StatusBadRequest,
	query.InvalidQuery:               http.StatusBadRequest,
	query.IteratorClosed:             http.StatusBadRequest,
	query.PartitionNotInStore:        http.StatusNotFound,
	query.StreamThreadNotRunning:     http.StatusServiceUnavailable,
	query.StateStoreNotAvailable:     http.StatusServiceUnavailable,
	query.StreamThreadNotStarted:     http.StatusServiceUnavailable,
	query.InvalidStateStorePartition: http.StatusMisdirectedRequest,
	query.StateStoreMigrated:         http.StatusMisdirectedRequest,
	query.StreamThreadRebalancing:    http.StatusServiceUnavailable,
	query.MetadataUnavailable:        http.StatusServiceUnavailable,
	query.StoreFailure:               http.StatusServiceUnavailable,
	query.Overloaded:                 http.StatusTooManyRequests,
	query.DeadlineExceeded:           http.StatusGatewayTimeout,
}

// Status is the status code of a failure of a kind; a kind of a newer release is 503.
func Status(k query.Kind) int {
	if s, ok := statuses[k]; ok {
		return s
	}
	return http.StatusServiceUnavailable
}

// problem is a failure as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Kind is the failure's kind, Retry what to do.
	Kind  string `json:"kind,omitempty"`
	Retry string `json:"retry"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after,omitempty"`
	Owner      string  `json:"owner,omitempty"`
	Store      string  `json:"store,omitempty"`
	Partition  *int32  `json:"partition,omitempty"`
}

// problemType begins the type of every failure; its kind is the rest.
const problemType = "urn:millrace:failure:"

func asProblem(err error) problem {
	f := &query.Failure{}
	if !errors.As(err, &f) {
		f = query.New(query.StoreFailure, "", query.NoPartition)
	}
	p := problem{Type: problemType + f.Kind.String(), Title: f.Kind.String(), Status: Status(f.Kind), Detail: f.Error(), Kind: f.Kind.String(),
		Retry: f.Retry.String(), RetryAfter: f.RetryAfter.Seconds(), Owner: f.Owner, Store: f.Store}
	if f.Partition != query.NoPartition {
		p.Partition = &f.Partition
	}
	return p
}

func fail(w http.ResponseWriter, err error) {
	tell(w, asProblem(err))
}

// tell writes a problem. When to ask again, if the same node is to be asked, is a header too.
func tell(w http.ResponseWriter, p problem) {
	if p.Retry == query.Here.String() {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter))))
	}
	write(w, p.Status, "application/problem+json", p)
}

// problems bounds what is answered at a time, and makes problem documents of the answers of the mux itself. Health is
// always answered, and at once.
func problems(mux *http.ServeMux, slots chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := tooLong(r); status != 0 {
			noQuestion(w, status, fmt.Sprintf("the limit is %d bytes: send long keys in the body of a POST to /stores/{store}/keys", MaxHeaderBytes))
			return
		}
		if strings.HasSuffix(r.URL.Path, "z") && (r.URL.Path == "/livez" || r.URL.Path == "/readyz" || r.URL.Path == "/startupz") {
			mux.ServeHTTP(&unrouted{ResponseWriter: w, request: r}, r)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			mux.ServeHTTP(&unrouted{ResponseWriter: w, request: r}, r)
		default:
			f := query.New(query.Overloaded, "", query.NoPartition)
			f.Detail = "the node answers " + strconv.Itoa(MaxInFlight) + " requests already"
			fail(w, f)
		}
	})
}

// unrouted replaces what the mux says about a path or a method that does not exist. That there is none is known by the
// pattern, which the mux sets when it has found a route: to look for the route beforehand would be to look twice.
type unrouted struct {
	http.ResponseWriter
	request  *http.Request
	replaced bool
}

// routed gives a handler the writer itself.
func routed(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(w.(*unrouted).ResponseWriter, r) }
}

// WriteHeader implements http.ResponseWriter.
func (u *unrouted) WriteHeader(status int) {
	if status < http.StatusBadRequest || u.request.Pattern != "" {
		u.ResponseWriter.WriteHeader(status)
		return
	}
	u.replaced = true
	noQuestion(u.ResponseWriter, status, "there is nothing at this path for this method: /openapi.yaml describes what there is")
}

// noQuestion says that a request is no question at all.
func noQuestion(w http.ResponseWriter, status int, detail string) {
	tell(w, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Retry: query.Never.String()})
}

// tooLong is the status code for a request whose line or headers are over MaxHeaderBytes, or 0.
func tooLong(r *http.Request) int {
	if len(r.RequestURI) > MaxHeaderBytes {
		return http.StatusRequestURITooLong
	}
	size := 0
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(": ") + len(v) + len("\r\n")
		}
	}
	if size > MaxHeaderBytes {
		return http.StatusRequestHeaderFieldsTooLarge
	}
	return 0
}

// Write implements http.ResponseWriter.
func (u *unrouted) Write(b []byte) (int, error) {
	if u.replaced {
		return len(b), nil
	}
	return u.ResponseWriter.Write(b)
}
