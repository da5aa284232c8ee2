package httpapi

import (
	"net/http"
	"time"
)

// What a caller may use of a server that Server makes. A longer key goes into the body of a POST.
const (
	// MaxHeaderBytes bounds a request's line and headers, the key in its path included.
	MaxHeaderBytes = 64 << 10
	// MaxBodyBytes bounds the body of a POST.
	MaxBodyBytes = 8 << 20
	// MaxInFlight is how many requests are answered at a time; the next one is Overloaded.
	MaxInFlight = 1_024
	// HeaderTime, RequestTime and AnswerTime are how long a client may take to send the headers, to send all, and to
	// read the answer. IdleTime is how long a connection is kept without a request.
	HeaderTime  = 10 * time.Second
	RequestTime = 30 * time.Second
	AnswerTime  = 30 * time.Second
	IdleTime    = 2 * time.Minute
)

// Server is an HTTP server for a Handler, with bounds for clients that are slow or greedy.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, MaxHeaderBytes: MaxHeaderBytes, ReadHeaderTimeout: HeaderTime, ReadTimeout: RequestTime,
		WriteTimeout: AnswerTime, IdleTimeout: IdleTime}
}
