package cli

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// moved puts the file at from in the place of the one at to, as a rotation does: at once, and as another file.
func moved(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err = errors.Join(err, os.WriteFile(to+".next", b, 0o600), os.Rename(to+".next", to)); err != nil {
		t.Fatal(err)
	}
}

// Handshakes of both sides show the certificate that the files hold, at most ten seconds later. Half of a rotation, and what is
// none, leave the old one and cost a line each.
func TestCertificatesAreRenewed(t *testing.T) {
	cert, key := certified(t)
	other, otherKey := certified(t)
	var log bytes.Buffer
	at := time.Now()
	pair, err := tlsFlags{"ca", "cert", "key"}.renewedPair(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	pair.now, pair.checked = func() time.Time { return at }, at
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true}
	present(config, pair)
	first := pair.get()
	step := func(after time.Duration, want *tls.Certificate, lines int, says string) {
		t.Helper()
		at = at.Add(after)
		server, client := shaken(t, config)
		if !bytes.Equal(server, want.Certificate[0]) || !bytes.Equal(client, want.Certificate[0]) {
			t.Error("another certificate was shown")
		}
		if got := log.String(); strings.Count(got, "\n") != lines || !strings.Contains(got, says) {
			t.Errorf("%q is in the log, not %d lines and %q", got, lines, says)
		}
	}
	next, err := tls.LoadX509KeyPair(other, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	step(renewal, first, 0, "")
	moved(t, other, cert)
	step(renewal-1, first, 0, "")
	step(1, first, 1, "cannot be used together")
	step(renewal, first, 1, "")
	moved(t, otherKey, key)
	step(renewal, &next, 2, "is in use")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step(renewal, &next, 3, "holds no certificate")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	step(renewal, &next, 4, "no such file")
	step(renewal, &next, 4, "")
}

// shaken is what each side of a handshake has seen of the other: the server's certificate and the client's.
func shaken(t *testing.T, c *tls.Config) (server, client []byte) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	listening, calling := tls.Server(a, c), tls.Client(b, c)
	done := make(chan error, 1)
	go func() { done <- listening.HandshakeContext(t.Context()) }()
	err := calling.HandshakeContext(t.Context())
	go io.Copy(io.Discard, calling) // what a server of TLS 1.3 sends after the handshake; it ends with the pipe
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return calling.ConnectionState().PeerCertificates[0].Raw, listening.ConnectionState().PeerCertificates[0].Raw
}

// A token that leaves the file is refused from then on; a file that is wrong lets in who was let in before.
func TestTokensAreRenewed(t *testing.T) {
	path := tokenFile(t, 0o600)
	var log bytes.Buffer
	s := &settings{listenSettings: listenSettings{ListenTokens: path}}
	g, err := s.guard(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	g.tokens.now, g.tokens.checked = func() time.Time { return at }, at
	h := g.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	step := func(text string, mode os.FileMode, want int, says string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(renewal)
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+listenSecret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || !strings.Contains(log.String(), says) || strings.Contains(log.String(), listenSecret) {
			t.Errorf("%d, not %d; the log has %s, not %q", w.Code, want, log.String(), says)
		}
		log.Reset()
	}
	known := "ops " + listenSecret + " read\n"
	step("", 0o600, http.StatusOK, "it holds no token")
	step(known, 0o644, http.StatusOK, "chmod 600")
	step(known, 0o600, http.StatusOK, "is in use")
	step("ops another-secret-of-somebody read\n", 0o600, http.StatusUnauthorized, "is in use")
}
