package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	der, key := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

func (a *authority) sign(template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue makes a certificate for a server on loopback, or for a client.
func (a *authority) issue(usage x509.ExtKeyUsage) tls.Certificate {
	der, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "peer"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// The password of every test here; no error and no log line may hold it.
const secret = "hunter=2,ü"

// secured is a cluster that asks for TLS, for client certificates, and for a user, and how it is reached.
func secured(t *testing.T, mechanism string) (cfg kafka.Config, ca *authority, c *embedded.Cluster) {
	ca = newAuthority(t)
	server := &tls.Config{Certificates: []tls.Certificate{ca.issue(x509.ExtKeyUsageServerAuth)}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	c, err := embedded.Start(kfake.SeedTopics(1, "t"), kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser(mechanism, "me", secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client := &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.issue(x509.ExtKeyUsageClientAuth)}}
	return kafka.Config{Brokers: c.Addrs(), TLS: client, User: "me", Password: secret, Mechanism: mechanism}, ca, c
}

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// Every role goes through mutual TLS and each mechanism.
func TestEveryRoleAuthenticates(t *testing.T) {
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			cfg, _, _ := secured(t, mechanism)
			if err := kafka.Reach(within(t, patience), cfg); err != nil {
				t.Fatal(err)
			}
			a, err := kafka.NewAdmin(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if infos, err := a.Topics(within(t, patience), "t"); err != nil || infos["t"].Partitions != 1 {
				t.Fatal(infos, err)
			}
			w := newWriter(t, cfg.Brokers, func(c *kafka.ProducerConfig) { c.Config = cfg })
			w.put(t, tp(0), 0, 50)
			w.flush(t)
			r := newReader(t, cfg.Brokers, func(c *kafka.FetcherConfig) { c.Config = cfg })
			r.start(tp(0), 0)
			r.until("read", r.has(tp(0), 50))
			g := newPeer(t, cfg.Brokers, "g", func(c *kafka.GroupConfig) { c.Config = cfg })
			await(t, "assigned", owns(1, g), g)
		})
	}
}

// keepsSecret checks that an error does not hold the password, in whatever form.
func keepsSecret(t *testing.T, err error) {
	t.Helper()
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) || strings.Contains(text, "hunter") {
		t.Errorf("the password is in %s", text)
	}
}

// refuse answers as a real broker does; the embedded one only drops the connection of who does not know the password.
func refuse(c *embedded.Cluster, key kmsg.Key, code int16) {
	c.Kfake().ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		switch res := req.ResponseKind().(type) {
		case *kmsg.SASLAuthenticateResponse:
			res.ErrorCode, res.ErrorMessage = code, kmsg.StringPtr("Authentication failed during authentication due to invalid credentials")
			return res, nil, true
		case *kmsg.SASLHandshakeResponse:
			res.ErrorCode = code
			return res, nil, true
		}
		return nil, errors.New("no such answer"), true
	})
}

// A refusal is an answer: Reach does not wait for a better one.
func TestRefusedUserIsFatalAtOnce(t *testing.T) {
	for _, mechanism := range mechanisms {
		for key, code := range map[kmsg.Key]int16{kmsg.SASLAuthenticate: 58, kmsg.SASLHandshake: 33} {
			cfg, _, c := secured(t, mechanism)
			refuse(c, key, code)
			ctx := within(t, patience)
			err := kafka.Reach(ctx, cfg)
			var refused *broker.Error
			if !errors.As(err, &refused) || refused.Class != broker.Fatal || refused.Code != code || ctx.Err() != nil {
				t.Errorf("%s: %v", mechanism, err)
			}
			keepsSecret(t, err)
		}
	}
}

// A member whose password is changed under it fails as Fatal, and so does everything that it is asked.
func TestRefusedMemberFails(t *testing.T) {
	cfg, _, c := secured(t, "SCRAM-SHA-256")
	refuse(c, kmsg.SASLAuthenticate, 58)
	g := newPeer(t, cfg.Brokers, "g", func(c *kafka.GroupConfig) { c.Config = cfg })
	g.CommittedOffsets(1, tps(0), true)
	await(t, "the member failed", func() bool { return g.failed != nil && g.fetched[1].Err != nil }, g)
	for _, err := range []*broker.Error{g.failed, g.fetched[1].Err} {
		if err.Code != 58 || err.Class != broker.Fatal {
			t.Error(err)
		}
		keepsSecret(t, err)
	}
}

// The embedded broker drops the connection of who does not know the password: that is seen, and nothing is given away.
func TestWrongPasswordDoesNotGetIn(t *testing.T) {
	for _, mechanism := range mechanisms {
		cfg, _, _ := secured(t, mechanism)
		cfg.Password = secret + "?"
		err := kafka.Reach(within(t, 300*time.Millisecond), cfg)
		if err == nil {
			t.Errorf("%s: it got in", mechanism)
		}
		keepsSecret(t, err)
	}
}

// What is wrong with a certificate is in the error that names the brokers.
func TestCertificatesThatAreNotTrusted(t *testing.T) {
	for what, change := range map[string]func(c *tls.Config, ca, stranger *authority){
		"unknown authority": func(c *tls.Config, _, stranger *authority) { c.RootCAs = stranger.pool() },
		"certificate": func(c *tls.Config, _, stranger *authority) {
			c.Certificates = []tls.Certificate{stranger.issue(x509.ExtKeyUsageClientAuth)}
		},
		"tls:":                                 func(c *tls.Config, _, _ *authority) { c.Certificates = nil },
		"wanted to match localhost-of-another": func(c *tls.Config, _, _ *authority) { c.ServerName = "localhost-of-another" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg, ca, _ := secured(t, "SCRAM-SHA-512")
			change(cfg.TLS, ca, newAuthority(t))
			var unreachable *kafka.UnreachableError
			// The time must do for one handshake at least.
			err := kafka.Reach(within(t, time.Second), cfg)
			for wait := 2 * time.Second; err != nil && !strings.Contains(err.Error(), what) && wait < patience; wait *= 2 {
				err = kafka.Reach(within(t, wait), cfg)
			}
			if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), what) {
				t.Errorf("%v", err)
			}
			keepsSecret(t, err)
		})
	}
}

func TestConfigKeepsItsSecrets(t *testing.T) {
	cfg := kafka.Config{Brokers: []string{"b:9092"}, User: "me", Password: secret, Mechanism: "SCRAM-SHA-256"}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("as", "config", cfg, "in", kafka.FetcherConfig{Config: cfg})
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg), fmt.Sprintf("%v %+v %#v", &cfg, &cfg, &cfg),
		fmt.Sprintf("%v %+v %#v", kafka.FetcherConfig{Config: cfg}, kafka.GroupConfig{Config: cfg}, kafka.ProducerConfig{Config: cfg}), logged.String(),
	} {
		if strings.Contains(text, "hunter") || !strings.Contains(text, "b:9092") {
			t.Errorf("%s", text)
		}
	}
}

func TestConfigNamesWhatOfTheAuthenticationIsMissing(t *testing.T) {
	for want, cfg := range map[string]kafka.Config{
		"Config.User":      {Mechanism: "PLAIN"},
		"Config.Password":  {User: "me"},
		"Config.Mechanism": {User: "me", Password: secret, Mechanism: "GSSAPI"},
	} {
		_, admin := kafka.NewAdmin(cfg)
		_, changelog := kafka.NewChangelog(cfg)
		_, fetcher := kafka.NewFetcher(kafka.FetcherConfig{Config: cfg}, nil)
		_, group := kafka.NewGroup(kafka.GroupConfig{Config: cfg, Group: "g", Topics: []string{"t"}, Assignor: &planner{}}, nil)
		for _, err := range []error{admin, changelog, fetcher, group, kafka.Reach(t.Context(), cfg)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not name %s", err, want)
			}
			keepsSecret(t, err)
		}
	}
}
