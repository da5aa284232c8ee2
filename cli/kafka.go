package cli

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
)

// kafkaSettings are how the brokers are reached besides their addresses.
type kafkaSettings struct {
	KafkaTLS          bool   `name:"kafka-tls" help:"Encrypt connections to the brokers and trust the authorities of this machine; the four that follow turn it on too."`
	KafkaCA           string `name:"kafka-ca" help:"PEM file with the authorities to trust in the place of this machine's." placeholder:"FILE"`
	KafkaCert         string `help:"PEM file with this process's certificate for the brokers (mutual TLS)." placeholder:"FILE"`
	KafkaKey          string `help:"PEM file with its key." placeholder:"FILE"`
	KafkaServerName   string `help:"Name that the brokers' certificates are for, if it is not the host of their addresses." placeholder:"NAME"`
	KafkaMechanism    string `help:"How --kafka-user proves who it is: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512." enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" default:"SCRAM-SHA-512"`
	KafkaUser         string `help:"User for SASL; without one there is no SASL." placeholder:"NAME"`
	KafkaPasswordFile string `help:"File that holds the user's password alone; or give it in MILLRACE_KAFKA_PASSWORD." placeholder:"FILE"`
	// KafkaPassword is a flag so that the layers know it. It is taken from the environment only: see secretsOf.
	KafkaPassword secret `hidden:"" help:"Password of --kafka-user."`
}

// encrypted says whether connections are.
func (k *kafkaSettings) encrypted() bool {
	return k.KafkaTLS || k.KafkaCA+k.KafkaCert+k.KafkaKey+k.KafkaServerName != ""
}

// config is how the cluster is reached; the log, which may be nil, is told of certificates that are renewed. It fails on settings that do not go together and on files that cannot be used.
func (k *kafkaSettings) config(brokers []string, log *slog.Logger) (c kafka.Config, err error) {
	c = kafka.Config{Brokers: brokers, ClientID: "millrace-cli"}
	if k.encrypted() {
		if c.TLS, err = (tlsFlags{"kafka-ca", "kafka-cert", "kafka-key"}).client(k.KafkaCA, k.KafkaCert, k.KafkaKey, log); err != nil {
			return c, err
		}
		c.TLS.ServerName = k.KafkaServerName
	}
	password, err := k.password()
	if err != nil || k.KafkaUser == "" {
		return c, err
	}
	c.Mechanism, c.User, c.Password = k.KafkaMechanism, k.KafkaUser, string(password)
	return c, nil
}

// password is the one of the user.
func (k *kafkaSettings) password() (secret, error) {
	given := k.KafkaPasswordFile != "" || k.KafkaPassword != ""
	switch {
	case k.KafkaUser == "" && given:
		return "", usagef("--kafka-password-file and MILLRACE_KAFKA_PASSWORD say nothing without --kafka-user; give it the user's name")
	case k.KafkaUser != "" && !given:
		return "", usagef("--kafka-user %q has no password; give it in MILLRACE_KAFKA_PASSWORD, or a file that holds it alone with --kafka-password-file", k.KafkaUser)
	}
	return k.KafkaPassword.given("kafka-password", k.KafkaPasswordFile)
}

// exposes says that the password would go over a network as it is.
func (k *kafkaSettings) exposes(brokers []string) bool {
	if k.KafkaUser == "" || k.KafkaMechanism != "PLAIN" || k.encrypted() {
		return false
	}
	for _, b := range brokers {
		host, _, _ := net.SplitHostPort(b)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return true
		}
	}
	return false
}

// check finds what cannot be used.
func (k *kafkaSettings) check(brokers []string) error {
	if _, err := k.config(brokers, nil); err != nil {
		return err
	}
	switch {
	case k.exposes(brokers):
		return usagef("--kafka-mechanism PLAIN would send the password as it is to other machines; encrypt with --kafka-tls or --kafka-ca, or use SCRAM-SHA-256 or SCRAM-SHA-512")
	case len(brokers) == 0 && (k.encrypted() || k.KafkaUser != ""):
		return usagef("the --kafka- settings say nothing about the embedded broker; name a Kafka cluster with --brokers, or leave them out")
	}
	return nil
}

// options are the settings as a node takes them.
func (k *kafkaSettings) options(brokers []string, log *slog.Logger) ([]millrace.Option, error) {
	c, err := k.config(brokers, log)
	if err != nil {
		return nil, err
	}
	return []millrace.Option{millrace.WithBrokers(brokers...), millrace.WithTLS(c.TLS), millrace.WithSASL(c.Mechanism, c.User, c.Password)}, nil
}

// unreached is why a cluster cannot be used: it answers, and not to this user, or it does not answer in time.
func (k *kafkaSettings) unreached(err error, brokers []string, within time.Duration) error {
	if refused, ok := errors.AsType[*broker.Error](err); !ok || refused.Class != broker.Fatal || k.KafkaUser == "" {
		if u, ok := errors.AsType[*kafka.UnreachableError](err); ok && u.Cause != nil {
			err = u.Cause // this sentence names the flag that fixes it
		}
		return failf(err, "no broker of %s answers within %s; start Kafka there, or name another with --brokers", strings.Join(brokers, ","), within)
	}
	return failf(err, "the brokers refuse --kafka-user %q by %s; correct the user, its password or --kafka-mechanism", k.KafkaUser, k.KafkaMechanism)
}
