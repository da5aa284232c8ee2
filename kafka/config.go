package kafka

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/IBM/sarama"
)

// Config is how a cluster is reached. It is the same for every role; a role opens its own connections.
type Config struct {
	// Brokers are the seeds, host:port each.
	Brokers  []string
	ClientID string
	// TLS is nil for plain connections.
	TLS *tls.Config
	// User and Password turn SASL on; Mechanism is PLAIN unless set.
	User, Password, Mechanism string
	// DialTimeout is 5 s unless set; RequestTimeout, for requests that do not wait by design, 15 s.
	DialTimeout, RequestTimeout time.Duration
	Logger                      *slog.Logger
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
	s.ClientID = c.ClientID
	if s.ClientID == "" {
		s.ClientID = "millrace"
	}
	s.Net.Proxy.Enable = true
	s.Net.Proxy.Dialer = dialer
	s.Net.DialTimeout = c.dialTimeout()
	s.Net.ReadTimeout = readTimeout
	s.Net.WriteTimeout = c.requestTimeout()
	s.Net.MaxOpenRequests = 8
	s.Metadata.AllowAutoTopicCreation = false
	if c.TLS != nil {
		s.Net.TLS.Enable, s.Net.TLS.Config = true, c.TLS
	}
	if c.User != "" {
		s.Net.SASL.Enable, s.Net.SASL.User, s.Net.SASL.Password = true, c.User, c.Password
		if c.Mechanism != "" {
			s.Net.SASL.Mechanism = sarama.SASLMechanism(c.Mechanism)
		}
	}
	return s
}

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

// keepingDialer remembers the connection that it made. Broker.Close waits for pending answers; closing this does not.
type keepingDialer struct {
	timeout time.Duration
	conn    chan net.Conn // holds the last connection, one at most
}

func newKeepingDialer(timeout time.Duration) *keepingDialer {
	return &keepingDialer{timeout: timeout, conn: make(chan net.Conn, 1)}
}

// Dial implements the library's dialer.
func (d *keepingDialer) Dial(network, addr string) (net.Conn, error) {
	c, err := net.DialTimeout(network, addr, d.timeout)
	if err != nil {
		return nil, err
	}
	select {
	case <-d.conn:
	default:
	}
	d.conn <- c
	return c, nil
}

func (d *keepingDialer) cut() {
	select {
	case c := <-d.conn:
		_ = c.Close()
	default:
	}
}
