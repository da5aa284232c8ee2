package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a caller may use of a server that Server makes. A longer key goes into the body of a POST.
const (
	// MaxHeaderBytes bounds a request's line, the key in its path included, and its headers. What is up to twice as long is
	// told so by a problem document, 414 or 431; what is longer yet gets net/http's own 431, and the connection is closed.
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
	over := make(chan struct{})
	s := &http.Server{Handler: h, MaxHeaderBytes: 2 * MaxHeaderBytes, ReadHeaderTimeout: HeaderTime, ReadTimeout: RequestTime,
		WriteTimeout: AnswerTime, IdleTimeout: IdleTime,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(context.Background(), overKey{}, over) }}
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(over) }))
	return s
}

// overKey is of the channel in a request's context that is closed when the server begins to shut down. Shutdown waits for
// answers, and ends no request's context: one that has no end of its own would hold it up for good.
type overKey struct{}

// ending is closed when the server of a request begins to shut down; nil, which never is, for another server than Server's.
func ending(ctx context.Context) <-chan struct{} {
	over, _ := ctx.Value(overKey{}).(chan struct{})
	return over
}

// MaxConnections is how many connections a listener of Limit keeps open.
const MaxConnections = 4_096

// Limit is l with at most MaxConnections open at a time; further callers wait to be taken.
func Limit(l net.Listener) net.Listener {
	return &limited{Listener: l, places: make(chan struct{}, MaxConnections), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &counted{Conn: c, places: l.places}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	places chan struct{}
	once   sync.Once
}

// CloseWrite ends what the server sends and not what it takes. net/http does so before it leaves a caller that still sends:
// without it the caller would see a broken connection and not the answer.
func (c *counted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { <-c.places })
	return c.Conn.Close()
}
