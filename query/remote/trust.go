package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// untrusted says that a connection failed because one side does not take the other's certificate, or one of them speaks no
// TLS. Trying again, here or elsewhere, does not help before somebody has changed a setting.
func untrusted(err error) bool {
	certificate, record, remote := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}, (*net.OpError)(nil)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &remote) && remote.Op == "remote error" // an alert of the other side
}

// proving are TLS credentials that keep why a handshake failed. gRPC makes a text of it, which says no more than that the
// node is unavailable.
type proving struct {
	credentials.TransportCredentials
	failed *atomic.Pointer[error]
}

func newProving(c *tls.Config) *proving {
	return &proving{credentials.NewTLS(c), new(atomic.Pointer[error])}
}

// ClientHandshake implements credentials.TransportCredentials.
func (p *proving) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, raw)
	p.note(err)
	if err != nil {
		return nil, nil, err
	}
	return &proved{c, p}, info, nil
}

func (p *proving) note(err error) {
	if err != nil && untrusted(err) {
		p.failed.Store(&err)
	}
}

// proved is a connection after its handshake. With TLS 1.3 that is not the end of it: what the other side thinks of the
// certificate comes with the first bytes that are read.
type proved struct {
	net.Conn
	by *proving
}

// Read implements net.Conn.
func (c *proved) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.note(err)
	return n, err
}

// Clone implements credentials.TransportCredentials.
func (p *proving) Clone() credentials.TransportCredentials {
	return &proving{p.TransportCredentials.Clone(), p.failed}
}

// cause is why the handshake failed, if that was it, else err.
func (p *proving) cause(err error) error {
	if failed := p.failed.Load(); failed != nil {
		return *failed
	}
	return err
}
