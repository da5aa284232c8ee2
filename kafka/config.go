package kafka

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"net"
	"time"

	"github.com/IBM/sarama"
)

// Config is how a cluster is reached. It is the same for every role; a role opens its own connections.
type Config struct {
	// Brokers are the seeds, host:port each.
	Brokers []string
	// ClientID is how brokers call this client in quotas, metrics and logs [millrace]. A Fetcher and a Group put -consumer
	// behind it, a Producer -producer.
	ClientID string
	// TLS is nil for plain connections. RootCAs says whom to trust, Certificates who this is to a broker that asks for
	// client certificates; a ServerName that is not set is the host of each broker's address.
	TLS *tls.Config
	// User and Password turn SASL on. Mechanism is PLAIN unless set, or SCRAM-SHA-256 or SCRAM-SHA-512; PLAIN sends the
	// password as it is, so use it with TLS only. No error, log line or %v of a Config holds the password.
	User, Password, Mechanism string
	// DialTimeout is 5 s unless set; RequestTimeout, for requests that do not wait by design, 15 s.
	DialTimeout, RequestTimeout time.Duration
	// Dial makes connections; nil for net.Dialer. DialTimeout applies to either.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// String leaves the password and the keys of TLS out.
func (c Config) String() string {
	auth := "no SASL"
	if c.User != "" {
		auth = c.mechanism() + " as " + c.User
	}
	return fmt.Sprintf("kafka at %v, client id %q, TLS %t, %s", c.Brokers, c.ClientID, c.TLS != nil, auth)
}

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

// LogValue is String, for log/slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) mechanism() string { return cmp.Or(c.Mechanism, sarama.SASLTypePlaintext) }

// scramHashes are the mechanisms that prove the password without sending it.
var scramHashes = map[string]func() hash.Hash{sarama.SASLTypeSCRAMSHA256: sha256.New, sarama.SASLTypeSCRAMSHA512: sha512.New}

// validate says in one sentence what of the authentication cannot work.
func (c Config) validate() error {
	switch {
	case c.User == "" && (c.Password != "" || c.Mechanism != ""):
		return errors.New("kafka: a password or a SASL mechanism is set and no user: set Config.User")
	case c.User != "" && c.Password == "":
		return fmt.Errorf("kafka: the password of user %q is missing: set Config.Password", c.User)
	case c.User != "" && c.mechanism() != sarama.SASLTypePlaintext && scramHashes[c.mechanism()] == nil:
		return fmt.Errorf("kafka: SASL mechanism %q is not spoken here: set Config.Mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.Mechanism)
	}
	return nil
}

func (c Config) log() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// version is the newest that the client library knows; it lowers each request to what the broker speaks.
var version = sarama.V4_3_1_0

// sarama gives the library's settings for one connection whose network side is kept by dialer. readTimeout exceeds what
// the role's requests wait at the broker by design.
func (c Config) sarama(dialer *keepingDialer, readTimeout time.Duration) *sarama.Config {
	s := sarama.NewConfig()
	s.Version = version
	s.ClientID = c.clientID()
	s.Net.Proxy.Enable = true
	s.Net.Proxy.Dialer = dialer
	s.Net.DialTimeout = c.dialTimeout()
	s.Net.ReadTimeout = readTimeout
	s.Net.WriteTimeout = c.requestTimeout()
	s.Net.MaxOpenRequests = 8
	s.Metadata.AllowAutoTopicCreation = false
	if c.User != "" {
		s.Net.SASL.Enable, s.Net.SASL.User, s.Net.SASL.Password = true, c.User, c.Password
		s.Net.SASL.Mechanism = sarama.SASLMechanism(c.mechanism())
		if h := scramHashes[c.mechanism()]; h != nil {
			s.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram{hash: h} }
		}
	}
	return s
}

func (c Config) clientID() string { return cmp.Or(c.ClientID, "millrace") }

func (c Config) dialTimeout() time.Duration {
	if c.DialTimeout <= 0 {
		return 5 * time.Second
	}
	return c.DialTimeout
}

func (c Config) requestTimeout() time.Duration {
	if c.RequestTimeout <= 0 {
		return 15 * time.Second
	}
	return c.RequestTimeout
}

// keepingDialer remembers the connection that it made. Broker.Close waits for pending answers; closing this does not. TLS is
// its matter too, so that the connection which it remembers can be used without the client library.
type keepingDialer struct {
	timeout time.Duration
	tls     *tls.Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	ctx     context.Context // ends with cut, and a dial that is under way with it
	cancel  context.CancelFunc
	conn    chan net.Conn // holds the last connection, one at most
	secured net.Conn      // the same, or TLS on it; set before Dial returns
}

func newKeepingDialer(cfg Config) *keepingDialer {
	ctx, cancel := context.WithCancel(context.Background())
	d := &keepingDialer{timeout: cfg.dialTimeout(), tls: cfg.TLS, dial: cfg.Dial, ctx: ctx, cancel: cancel, conn: make(chan net.Conn, 1)}
	if d.dial == nil {
		d.dial = new(net.Dialer).DialContext
	}
	return d
}

// Dial implements the library's dialer.
func (d *keepingDialer) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.closeKept()
	d.conn <- c
	if d.ctx.Err() != nil { // cut meanwhile, and cut may have missed it
		d.closeKept()
	}
	d.secured = c
	if d.tls == nil {
		return c, nil
	}
	secured := tls.Client(c, d.serverName(addr))
	if err := secured.HandshakeContext(d.ctx); err != nil {
		d.closeKept()
		return nil, err
	}
	d.secured = secured
	return secured, nil
}

// serverName is the configuration with the host of an address as the name to check, unless it has one.
func (d *keepingDialer) serverName(addr string) *tls.Config {
	if d.tls.ServerName != "" {
		return d.tls
	}
	named := d.tls.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		named.ServerName = host
	}
	return named
}

// cut closes the connection, and one that is still to come.
func (d *keepingDialer) cut() {
	d.cancel()
	d.closeKept()
}

func (d *keepingDialer) closeKept() {
	select {
	case c := <-d.conn:
		_ = c.Close()
	default:
	}
}
