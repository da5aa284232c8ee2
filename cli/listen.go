package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/millrace-io/millrace/query/httpapi"
)

// Ports that are tried if --listen names no address.
const (
	firstPort = 8080
	lastPort  = 8179
)

// listen opens the address that was asked for, or the first port of the loopback interface that is free.
func listen(address string) (net.Listener, error) {
	if address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, failf(err, "nothing can listen on %s; give --listen another address", address)
		}
		return l, nil
	}
	for port := firstPort; port <= lastPort; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, failf(nil, "no port of 127.0.0.1 from %d to %d is free; name one with --listen", firstPort, lastPort)
}

// serve answers on l, to those whom the guard lets in, until stop is called. stop lets answers that are under way finish while its ctx lasts.
func serve(l net.Listener, g guard, h http.Handler) (stop func(ctx context.Context)) {
	server := httpapi.Server(g.handler(h))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(g.listener(httpapi.Limit(l))) // always ErrServerClosed, or the listener is gone, which a person sees by asking
	}()
	return func(ctx context.Context) {
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}
}
