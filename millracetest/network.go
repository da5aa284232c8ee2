package millracetest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// ErrCut is what a member's connections end with while it is partitioned.
var ErrCut = errors.New("millracetest: the network is cut")

// network is what one member reaches the brokers through.
//
// The mutex protects its fields: connections are used on the goroutines of their owners, and the test cuts them.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns map[*wire]struct{}
	// paused is not nil while nothing goes through; it is closed when it does again.
	paused chan struct{}
}

func newNetwork() *network { return &network{conns: map[*wire]struct{}{}} }

// dial is for millrace.WithDialer.
func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.isCut() {
		return nil, ErrCut
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, network: n, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		return nil, errors.Join(ErrCut, c.Close())
	}
	n.conns[w] = struct{}{}
	return w, nil
}

func (n *network) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

// set cuts the network or mends it.
func (n *network) set(cut bool) {
	n.mu.Lock()
	n.cut = cut
	var conns []*wire
	if cut {
		for c := range n.conns {
			conns = append(conns, c)
		}
	}
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// pause stops everything that is on its way, without closing a connection, or lets it go on.
func (n *network) pause(paused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case paused && n.paused == nil:
		n.paused = make(chan struct{})
	case !paused && n.paused != nil:
		close(n.paused)
		n.paused = nil
	}
}

// pass waits while the network is paused, and as long as the connection is open.
func (n *network) pass(w *wire) {
	n.mu.Lock()
	paused := n.paused
	n.mu.Unlock()
	if paused == nil {
		return
	}
	select {
	case <-paused:
	case <-w.closed:
	}
}

// wire is one connection.
type wire struct {
	net.Conn
	network *network
	once    sync.Once
	closed  chan struct{}
}

// Read implements net.Conn. What arrived while the network was paused is there when it goes on.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.network.pass(w)
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(b []byte) (int, error) {
	w.network.pass(w)
	return w.Conn.Write(b)
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.closed)
		w.network.mu.Lock()
		delete(w.network.conns, w)
		w.network.mu.Unlock()
	})
	return w.Conn.Close()
}
