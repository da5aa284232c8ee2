package cli

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/remote"
)

// listenSettings are those of --listen beyond this machine.
type listenSettings struct {
	ListenCert       string `help:"PEM file with this node's certificate for --listen; with it, --listen takes HTTPS only." placeholder:"FILE"`
	ListenKey        string `help:"PEM file with its key, which nobody else may read (mode 0600)." placeholder:"FILE"`
	ListenCA         string `help:"PEM file with certificates, one of which callers at --listen need one of too (mutual TLS)." name:"listen-ca" placeholder:"FILE"`
	ListenTokens     string `help:"File that says who may do what at --listen, which nobody else may read (mode 0600): lines of a name, a bearer token (or sha256: and its SHA-256) and rights: read, read:STORE, operate, metrics, health." placeholder:"FILE"`
	ListenAdvertised string `help:"Address by which callers reach --listen, if it is another." placeholder:"HOST:PORT"`
}

// guard is who may ask at --listen, and how it is kept secret; the zero guard lets all in.
type guard struct {
	tls    *tls.Config
	tokens *renewed[*httpapi.Tokens]
}

// guard reads the files; address is --listen. Beyond this machine it must have both TLS and tokens. The
// log, which may be nil, is told of files that have changed.
func (s *settings) guard(log *slog.Logger) (g guard, err error) {
	if g.tls, err = s.listenSettings.tls(log); err != nil {
		return g, err
	}
	if s.ListenTokens != "" {
		if g.tokens, err = newRenewed("--listen-tokens", log, s.readTokens, s.ListenTokens); err != nil {
			return g, &UsageError{Detail: "--listen-tokens: " + err.Error() + "; give a file of your own with names, rights and secrets", Cause: err}
		}
	}
	if open := s.Listen != "" && errors.Is(remote.Check(s.Listen), remote.ErrUnguarded); open && (g.tls == nil || g.tokens == nil) {
		return g, usagef("other machines can reach --listen %s, and there is no check of who asks or orders there; give it --listen-cert and --listen-key (TLS) and --listen-tokens (who may do what), or an address of 127.0.0.1", s.Listen)
	}
	return g, s.checkAdvertised()
}

func (l *listenSettings) readTokens() (*httpapi.Tokens, error) {
	return httpapi.ReadTokens(l.ListenTokens)
}

// checkAdvertised sees to it that other nodes can be told where this one is.
func (s *settings) checkAdvertised() error {
	if s.ListenAdvertised != "" {
		if host, port, err := net.SplitHostPort(s.ListenAdvertised); err != nil || host == "" || !legalPort(port) {
			return usagef("--listen-advertised %q is no address; give host:port, such as node-1:8080", s.ListenAdvertised)
		}
		return nil
	}
	host, _, _ := net.SplitHostPort(s.Listen)
	if ip := net.ParseIP(host); s.Listen != "" && s.Remote == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return usagef("--listen %s is every address of this machine, and other nodes tell callers one; name it with --listen-advertised", s.Listen)
	}
	return nil
}

// tls is nil without certificates.
func (l *listenSettings) tls(log *slog.Logger) (*tls.Config, error) {
	c, err := tlsFlags{"listen-ca", "listen-cert", "listen-key"}.server(l.ListenCA, l.ListenCert, l.ListenKey, log)
	if c != nil {
		c.NextProtos = []string{"http/1.1"}
	}
	if c != nil && c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, err
}

// listener encrypts what comes in at l, which is limited already: a handshake takes a place too.
func (g guard) listener(l net.Listener) net.Listener {
	if g.tls == nil {
		return l
	}
	return tls.NewListener(l, g.tls)
}

// handler lets callers through to h who are known.
func (g guard) handler(h http.Handler) http.Handler {
	if g.tokens == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpapi.Authenticate(g.tokens.get(), h).ServeHTTP(w, r) })
}

// scheme begins the node's address.
func (g guard) scheme() string {
	if g.tls == nil {
		return "http"
	}
	return "https"
}
