package millrace

import "github.com/millrace-io/millrace/query/remote"

// WithRemote lets other processes ask this node's stores at addr, host:port, from New until Run or Shutdown has returned: by
// StorePID, with package query/remote, and over HTTP, all at that one address. Port 0 takes a free one; RemoteAddress says
// which. On anything but loopback it needs mutual TLS (remote.WithTLS) or a bearer token (remote.WithToken). It is also the
// endpoint that the other nodes name to callers, unless WithEndpoint gives another.
//
// The node's actor system gets the address; one that is shared by WithActorSystem must have none, and must not be used by
// others before New returns.
func WithRemote(addr string, opts ...remote.Option) Option {
	return func(o *options) { o.remoteAddr, o.remote = addr, opts }
}

// checkRemote says what is wrong with WithRemote, or nothing.
func (o *options) checkRemote() string {
	if o.remoteAddr == "" {
		return ""
	}
	if err := remote.Check(o.remoteAddr, o.remote...); err != nil {
		return err.Error()
	}
	return ""
}
