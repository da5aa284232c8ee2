package cli

import (
	"time"

	"github.com/millrace-io/millrace"
)

// clientSettings are those of single Kafka clients, named after them as Kafka Streams' prefixes are.
type clientSettings struct {
	ConsumerFetchMaxWait time.Duration `help:"Time that a broker waits for records before it answers that there are none; 10s at most." default:"100ms"`
	ConsumerFetchBytes   int           `help:"Bytes of a partition that one answer brings at most: 16384 to 4194304." default:"1048576"`
	ProducerLinger       time.Duration `help:"Time that a record waits for others, so that batches fill; 1s at most. A commit sends at once." default:"20ms"`
	ProducerCompression  string        `help:"Compression of what is produced: none, gzip, snappy, lz4 or zstd." enum:"none,gzip,snappy,lz4,zstd" default:"none"`
	ClientID             string        `help:"What brokers call this process's clients by, in quotas and logs; by default millrace- and the application id." placeholder:"NAME"`
	RequestTimeout       time.Duration `help:"Time that a broker may take for an answer that it does not delay by design: 1s to 5m." default:"15s"`
}

// check finds what is out of bounds.
func (c *clientSettings) check() error {
	switch {
	case c.ConsumerFetchMaxWait <= 0 || c.ConsumerFetchMaxWait > 10*time.Second:
		return usagef("--consumer-fetch-max-wait %s is out of bounds; give a time above zero and up to 10s", c.ConsumerFetchMaxWait)
	case c.ConsumerFetchBytes < 16<<10 || c.ConsumerFetchBytes > 4<<20:
		return usagef("--consumer-fetch-bytes %d is out of bounds; give 16384 to 4194304", c.ConsumerFetchBytes)
	case c.ClientID != "" && !legalName.MatchString(c.ClientID):
		return usagef("--client-id %q is no name that brokers can have quotas for; give 1 to 100 of the characters a-z A-Z 0-9 . _ -", c.ClientID)
	case c.RequestTimeout < time.Second || c.RequestTimeout > 5*time.Minute:
		return usagef("--request-timeout %s is out of bounds; give a time from 1s to 5m", c.RequestTimeout)
	case c.ProducerLinger <= 0 || c.ProducerLinger > time.Second:
		return usagef("--producer-linger %s is out of bounds; give a time above zero and up to 1s", c.ProducerLinger)
	}
	return nil
}

func (c *clientSettings) options() []millrace.Option {
	return []millrace.Option{millrace.WithFetchMaxWait(c.ConsumerFetchMaxWait), millrace.WithLinger(c.ProducerLinger), millrace.WithCompression(c.ProducerCompression),
		millrace.WithFetchPartitionBytes(c.ConsumerFetchBytes), millrace.WithClientID(c.ClientID), millrace.WithRequestTimeout(c.RequestTimeout)}
}
