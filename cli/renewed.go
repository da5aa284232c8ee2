package cli

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// renewal is how often files with certificates and tokens are looked at, at most, while somebody needs what they hold.
const renewal = 10 * time.Second

// renewed is what some files hold, and holds again when they have changed: certificates end, and a token that is known to others
// has to go without a restart, which would cost a rebalance. Nothing watches the files. They are looked at when somebody asks, which is
// a handshake or a request, so there is no goroutine that had to end with whatever has the value. What cannot be used, also half of
// a change, leaves what was there, and costs one line in the log.
//
// The mutex protects what is below it: handshakes and requests come on goroutines of their own.
type renewed[T any] struct {
	what  string
	paths []string
	read  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	value   T
	checked time.Time
	seen    []fs.FileInfo
}

// newRenewed reads the files, which have to be right at first. The log may be nil.
func newRenewed[T any](what string, log *slog.Logger, read func() (T, error), paths ...string) (r *renewed[T], err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r = &renewed[T]{what: what, read: read, log: log, now: time.Now}
	for _, p := range paths {
		if p != "" {
			r.paths = append(r.paths, p)
		}
	}
	r.checked, r.seen = r.now(), r.look()
	r.value, err = read()
	return r, err
}

// get is what the files hold, or the last that they held and that could be used.
func (r *renewed[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.checked) >= renewal {
		r.checked = now
		r.renew()
	}
	return r.value
}

// renew reads the files if they are others than they were. They are looked at before they are read: a change in between is
// seen the next time.
func (r *renewed[T]) renew() {
	seen := r.look()
	if same(seen, r.seen) {
		return
	}
	r.seen = seen
	value, err := r.read()
	if err != nil {
		r.log.Warn("a file has changed and cannot be used; what it held before stays in use", "what", r.what, "err", err)
		return
	}
	r.value = value
	r.log.Info("a file has changed and is in use", "what", r.what)
}

// look describes the files; nil is one that is not there.
func (r *renewed[T]) look() (seen []fs.FileInfo) {
	for _, p := range r.paths {
		info, err := os.Stat(p)
		if err != nil {
			info = nil
		}
		seen = append(seen, info)
	}
	return seen
}

func same(a, b []fs.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil || b[i] == nil:
			if a[i] != b[i] {
				return false
			}
		case !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() || a[i].Mode() != b[i].Mode():
			return false
		}
	}
	return true
}

// renewedPair is the certificate that two files hold, with its key.
func (f tlsFlags) renewedPair(cert, key string, log *slog.Logger) (*renewed[*tls.Certificate], error) {
	return newRenewed("--"+f.cert+" and --"+f.key, log, func() (*tls.Certificate, error) {
		pair, err := f.pair(cert, key)
		return &pair, err
	}, cert, key)
}

// present has c show the certificate that there is at each handshake, as a server and to one.
func present(c *tls.Config, pair *renewed[*tls.Certificate]) {
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil }
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.get(), nil }
}
