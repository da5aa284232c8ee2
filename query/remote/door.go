package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// door takes the connections of one address and sorts them by their first bytes.
type door struct {
	listener net.Listener
	tls      *tls.Config
	refusals *Refusals
	// actors and http are where connections go.
	actors, http *side
	places       chan struct{}
	sorting      sync.WaitGroup
	done         chan struct{}
	once         sync.Once
}

func newDoor(l net.Listener, c *tls.Config, r *Refusals) *door {
	return &door{listener: l, tls: c, refusals: r, actors: newSide(l.Addr()), http: newSide(l.Addr()),
		places: make(chan struct{}, MaxConnections), done: make(chan struct{})}
}

// run takes connections until close.
func (d *door) run() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			select {
			case <-d.done:
				return
			case <-time.After(10 * time.Millisecond): // out of file descriptors, most likely: some will come free
				continue
			}
		}
		select {
		case d.places <- struct{}{}:
			d.sorting.Go(func() { d.sort(&placed{Conn: c, door: d}) })
		default:
			d.refusals.connections.Add(1)
			c.Close()
		}
	}
}

// wantsTLS is for a caller that speaks HTTP/1 without TLS: it would take a connection that is only closed for a node that ends.
const wantsTLS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

// preface is how HTTP/2 begins, as far as no HTTP/1 request does.
const preface = "PRI"

func (d *door) sort(c *placed) {
	ctx, cancel := context.WithTimeout(context.Background(), HelloTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Conn.SetDeadline(time.Now()) })
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-d.done:
			c.Conn.SetDeadline(time.Now())
		case <-gone:
		}
	}()
	var plain net.Conn = c
	if d.tls != nil {
		secure := tls.Server(c, d.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			d.refusals.unauthenticated.Add(1)
			if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
				io.WriteString(c, wantsTLS) // whether it arrives or not, the caller is done with
			}
			d.dismiss(c)
			return
		}
		plain = secure
	}
	head := make([]byte, len(preface))
	if _, err := io.ReadFull(plain, head); err != nil || !stop() {
		c.Close()
		return
	}
	to := d.http
	if string(head) == preface {
		to = d.actors
	}
	to.pass(&begun{Conn: plain, head: head}, d.done)
}

// What a caller that is turned away may still send, and for how long.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 10
)

// dismiss closes a connection in which the reason was just said. A caller with TLS 1.3 is ready before the node has seen its
// certificate, and sends. If that met a closed connection, the system would answer with a reset, which takes the reason away from
// before a caller that has not read it yet; so what comes is taken for a moment.
func (d *door) dismiss(c *placed) {
	defer c.Close()
	if c.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(lingerTime))
	select {
	case <-d.done:
	default:
		io.Copy(io.Discard, io.LimitReader(c, lingerBytes)) // nobody needs it, or to know how it ends
	}
}

// close ends the accepting; connections that were passed on are their servers' business.
func (d *door) close() {
	d.once.Do(func() { close(d.done) })
	d.listener.Close()
	d.sorting.Wait()
	d.actors.Close()
	d.http.Close()
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	door *door
	once sync.Once
}

// Close implements net.Conn.
func (p *placed) Close() error {
	p.once.Do(func() { <-p.door.places })
	return p.Conn.Close()
}

// CloseWrite ends what the node sends and not what it takes.
func (p *placed) CloseWrite() error { return closeWrite(p.Conn) }

// closeWrite is CloseWrite of a connection that has it. net/http leaves a caller that still sends in that way: without it
// the caller would see a broken connection and not the answer.
func closeWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// begun is a connection of which the first bytes were read.
type begun struct {
	net.Conn
	head []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.head) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.head)
	b.head = b.head[n:]
	return n, nil
}

// CloseWrite is that of the connection.
func (b *begun) CloseWrite() error { return closeWrite(b.Conn) }

// side is the listener of one of the two servers.
type side struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*side)(nil)

func newSide(a net.Addr) *side {
	return &side{addr: a, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (s *side) pass(c net.Conn, closing <-chan struct{}) {
	select {
	case s.conns <- c:
	case <-s.done:
		c.Close()
	case <-closing:
		c.Close()
	}
}

// Accept implements net.Listener.
func (s *side) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *side) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// Addr implements net.Listener.
func (s *side) Addr() net.Addr { return s.addr }
