package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/query"
)

// Client asks an application from another process. It may be used from any goroutine.
type Client struct {
	query.Client
	settings settings
	bytes    atomic.Int64
	// scheme is how owners that failures name are reached: "" by actors' messages, else http:// or https://.
	scheme string

	// mu protects the fields below it: owners are connected to on the goroutines of those who ask.
	mu     sync.Mutex
	ways   []transport
	max    int
	closed bool
}

var _ query.Client = (*Client)(nil)

// Dial makes a client of one or more nodes of an application. An address is host:port for a node that listens with this
// package, or http://host:port or https://host:port for HTTP/1; all must be of one form. It returns when one of them has
// taken the connection, and fails with the *query.Failure of the first if none does before ctx ends; its other errors are
// mistakes in the addresses.
//
// Questions follow the owners that failures name; see query.Nodes. The client connects again by itself. A question that is
// asked without a deadline ends after query.MaxWait and PingWait. Close it.
func Dial(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	c := &Client{settings: gather(opts), max: len(addrs) + MaxFollowed}
	clients := map[string]query.Client{}
	for i, addr := range addrs {
		scheme, address, err := parseAddress(addr)
		if err != nil {
			return nil, err
		}
		if i > 0 && scheme != c.scheme {
			return nil, errors.New("remote: addresses of two kinds: use host:port for all or http:// for all")
		}
		c.scheme = scheme
		if clients[address], err = c.node(address); err != nil {
			return nil, err
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("remote: no address is given: name at least one node")
	}
	c.Client = query.Nodes(clients, c.node)
	if err := c.await(ctx, clients); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func parseAddress(addr string) (scheme, address string, err error) {
	for _, s := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(addr, s); ok {
			scheme, addr = s, strings.TrimSuffix(rest, "/")
		}
	}
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return "", "", fmt.Errorf("remote: %q is not host:port, http://host:port or https://host:port", addr)
	}
	return scheme, addr, nil
}

// node implements query.Dial.
func (c *Client) node(address string) (query.Client, error) {
	if _, _, err := parseAddress(address); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.ways) >= c.max {
		return nil, errClosed
	}
	var way transport = &line{settings: c.settings, address: address, bytes: &c.bytes}
	if c.scheme != "" {
		way = newWeb(c.settings, c.scheme+address)
	}
	c.ways = append(c.ways, way)
	return &single{transport: way, partitions: map[string]int32{}}, nil
}

// await asks all nodes for their stores and is content with the first that says anything.
func (c *Client) await(ctx context.Context, clients map[string]query.Client) (first error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(clients))
	for _, n := range clients {
		go func() {
			_, err := query.Stores(ctx, n)
			answers <- err
		}()
	}
	for range clients {
		err := <-answers
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Close ends all connections. Questions that are under way fail.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	ways := c.ways
	c.ways = nil
	c.mu.Unlock()
	for _, w := range ways {
		w.close()
	}
	return nil
}
