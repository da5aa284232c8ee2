package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	a.cert = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}, &key.PublicKey)
	return a
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// config is that of a process whose certificate the authority has signed, and which trusts nobody else.
func (a *authority) config() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf := a.sign(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, &key.PublicKey)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

const secret = "a-long-enough-secret"

// Who has the certificate or the token is answered in every way, and who has not is told so at once and for good.
func TestOnlyThoseWhoProveThemselves(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	noCert := ours.config()
	noCert.Certificates = nil
	wrongAuthority, otherName := ours.config(), ours.config()
	wrongAuthority.RootCAs = theirs.config().RootCAs
	otherName.ServerName = "node-1"
	strangers := theirs.config()
	strangers.RootCAs = ours.config().RootCAs
	for name, c := range map[string]struct {
		listen []remote.Option
		good   []remote.Option
		bad    map[string][]remote.Option
	}{
		"mutual TLS": {[]remote.Option{remote.WithTLS(ours.config())}, []remote.Option{remote.WithTLS(ours.config())}, map[string][]remote.Option{
			"no certificate": {remote.WithTLS(noCert)}, "a stranger's": {remote.WithTLS(strangers)}, "no TLS": nil,
			"trust in another authority": {remote.WithTLS(wrongAuthority)}, "another name": {remote.WithTLS(otherName)}}},
		"token": {[]remote.Option{remote.WithToken(secret)}, []remote.Option{remote.WithToken(secret)}, map[string][]remote.Option{
			"none": nil, "another": {remote.WithToken(secret + "x")}}},
		"TLS and token": {[]remote.Option{remote.WithTLS(ours.config()), remote.WithToken(secret)}, []remote.Option{remote.WithTLS(ours.config()), remote.WithToken(secret)},
			map[string][]remote.Option{"no token": {remote.WithTLS(ours.config())}}},
	} {
		r := start(t, 1, answers, c.listen...)
		for _, scheme := range schemes {
			if scheme != "" && strings.Contains(name, "TLS") {
				scheme = "https://"
			}
			v, _, err := query.Get(t.Context(), dial(t, scheme, []string{r.Address()}, c.good...), counts, "word", query.Partition(0))
			if v != "word" || err != nil {
				t.Errorf("%s %q: %v %v", name, scheme, v, err)
			}
			for what, opts := range c.bad {
				before := r.Refusals().Counts()["unauthenticated"]
				_, err := remote.Dial(t.Context(), []string{scheme + r.Address()}, opts...)
				if what != "no TLS" && !errors.Is(err, query.ErrInvalidQuery) || !errors.Is(err, query.ErrInvalidStateStore) || !errors.Is(err, query.ErrFatal) || strings.Contains(err.Error(), secret) {
					t.Errorf("%s %q, %s: %v", name, scheme, what, err)
				}
				eventually(t, func() bool { return r.Refusals().Counts()["unauthenticated"] > before }, name, scheme, what, "it is not counted")
			}
		}
		// Another node, which listens, asks by PID.
		other := start(t, 1, answers, c.good...)
		reply, err := other.system.Root.RequestFuture(actor.NewPID(r.Address(), "app/query/counts/0"), &querypb.Get{Key: []byte("k")}, patience).Result()
		if got, ok := reply.(*querypb.Reply); err != nil || !ok || string(got.GetValue().GetValue()) != "k" {
			t.Errorf("%s: by PID: %v, %v", name, reply, err)
		}
	}
}

// Who forgets TLS, or brings it where there is none, has to change an address, and is told so.
func TestTLSOnOneSideOnly(t *testing.T) {
	ours := newAuthority(t)
	secure, plain := start(t, 1, answers, remote.WithTLS(ours.config())), start(t, 1, answers)
	for addr, opts := range map[string][]remote.Option{"http://" + secure.Address(): nil, "https://" + plain.Address(): {remote.WithTLS(ours.config())}, plain.Address(): {remote.WithTLS(ours.config())}} {
		if _, err := remote.Dial(t.Context(), []string{addr}, opts...); !errors.Is(err, query.ErrInvalidQuery) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A browser or curl, which would rather speak HTTP/2, gets HTTP/1 over TLS.
func TestHTTPOverTLS(t *testing.T) {
	ours := newAuthority(t)
	r := start(t, 1, answers, remote.WithTLS(ours.config()))
	transport := &http.Transport{TLSClientConfig: ours.config(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("https://" + r.Address() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 1 {
		t.Error(answer.Status, answer.Proto)
	}
}

func TestCheckNamesTheFix(t *testing.T) {
	ours := newAuthority(t).config()
	oneWay := ours.Clone()
	oneWay.ClientCAs = nil
	for _, c := range []struct {
		addr string
		opts []remote.Option
		want string
	}{
		{"127.0.0.1:0", nil, ""}, {"[::1]:0", nil, ""}, {"localhost:0", nil, ""},
		{"192.0.2.1:1", nil, "ClientCAs"}, {":1", nil, "WithToken"}, {"example.com:1", nil, "127.0.0.1"},
		{"192.0.2.1:1", []remote.Option{remote.WithTLS(oneWay)}, "ClientCAs"},
		{"192.0.2.1:1", []remote.Option{remote.WithTLS(ours)}, ""},
		{"192.0.2.1:1", []remote.Option{remote.WithToken(secret)}, ""},
		{"127.0.0.1:1", []remote.Option{remote.WithToken("short")}, "16 or more"},
		{"127.0.0.1:1", []remote.Option{remote.WithToken(strings.Repeat("ä ", 20))}, "printable"},
		{"127.0.0.1:1", []remote.Option{remote.WithTLS(&tls.Config{})}, "Certificates"},
		{"0.0.0.0:1", []remote.Option{remote.WithToken(secret)}, "WithAdvertised"},
		{"0.0.0.0:1", []remote.Option{remote.WithToken(secret), remote.WithAdvertised("node-1:1")}, ""},
		{"127.0.0.1:1", []remote.Option{remote.WithAdvertised("node-1")}, "host:port"},
		{"nowhere", nil, "host:port"},
	} {
		err := remote.Check(c.addr, c.opts...)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.want)
		}
		if c.want == "ClientCAs" && !errors.Is(err, remote.ErrUnguarded) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
}

func TestDialNamesTheFix(t *testing.T) {
	for want, addrs := range map[string][]string{"name at least one": nil, "is not host:port": {"nowhere"}, "of two kinds": {"127.0.0.1:1", "http://127.0.0.1:1"}} {
		if _, err := remote.Dial(t.Context(), addrs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", addrs, err)
		}
	}
}

// eventually looks until it is true, because the other side may hear of something later than the test.
func eventually(t *testing.T, ok func() bool, what ...any) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatal(what...)
		}
	}
}
