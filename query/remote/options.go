package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
)

// Option changes how a node listens or how a Client connects.
type Option func(*settings)

type settings struct {
	tls        *tls.Config
	token      string
	advertised string
}

// WithTLS encrypts. A node needs Certificates, and ClientCAs to know its callers by (mutual TLS): each must present a
// certificate of one of them. A Client needs RootCAs, and Certificates if the node wants one. A node also connects to callers
// that listen, so give it both. Protocol versions below TLS 1.2 are refused.
func WithTLS(c *tls.Config) Option { return func(s *settings) { s.tls = c } }

// WithToken is the secret that callers present as "Authorization: Bearer <token>", 16 characters or more. Without TLS it
// travels as it is.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAdvertised is the host:port by which callers reach this node, if it is not the one that it listens on.
func WithAdvertised(hostport string) Option { return func(s *settings) { s.advertised = hostport } }

// ErrUnguarded is for an address that other machines can reach when nothing says who may ask.
var ErrUnguarded = errors.New("nothing says who may ask")

// minToken is the least length of a token.
const minToken = 16

func gather(opts []Option) (s settings) {
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Check says what is wrong with a node's address and options, in one sentence that names the fix; ErrUnguarded is in its
// chain if it is that.
func Check(addr string, opts ...Option) error {
	s := gather(opts)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not host:port", addr)
	}
	if s.tls != nil && len(s.tls.Certificates) == 0 && s.tls.GetCertificate == nil {
		return errors.New("the TLS configuration has no certificate of this node: set Certificates")
	}
	if s.token != "" && (len(s.token) < minToken || strings.ContainsFunc(s.token, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return fmt.Errorf("the token can be guessed or sent wrongly: use %d or more printable ASCII characters without spaces", minToken)
	}
	if !loopback(host) && !s.guarded() {
		return fmt.Errorf("%w on %s, which other machines can reach: give WithTLS a configuration with ClientCAs (mutual TLS) or WithToken a secret, or listen on 127.0.0.1", ErrUnguarded, addr)
	}
	if s.advertised != "" {
		if host, port, err := net.SplitHostPort(s.advertised); err != nil || host == "" || port == "" {
			return fmt.Errorf("the advertised address %q is not host:port", s.advertised)
		}
		return nil
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%s is every address of this machine, and callers need one: name it with WithAdvertised", addr)
	}
	return nil
}

// guarded says that callers have to prove who they are.
func (s settings) guarded() bool {
	return s.token != "" || s.tls != nil && s.tls.ClientCAs != nil
}

// loopback is false for a name that is not known to stay on this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serverTLS is nil without TLS. HTTP/1 is preferred to HTTP/2, because only those who offer nothing else than HTTP/2 are
// after the gates.
func (s settings) serverTLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	c := s.tls.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	if c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.NextProtos = []string{"http/1.1", "h2"}
	return c
}

// clientTLS is nil without TLS.
func (s settings) clientTLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	c := s.tls.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.NextProtos = nil
	return c
}
