package cli

import (
	"time"

	"github.com/millrace-io/millrace"
)

// clientSettings are those of single Kafka clients, named after them as Kafka Streams' prefixes are.
type clientSettings struct {
	ConsumerFetchMaxWait time.Duration `help:"Time that a broker waits for records before it answers that there are none; 10s at most." default:"100ms"`
	ProducerLinger       time.Duration `help:"Time that a record waits for others, so that batches fill; 1s at most. A commit sends at once." default:"20ms"`
	ProducerCompression  string        `help:"Compression of what is produced: none, gzip, snappy, lz4 or zstd." enum:"none,gzip,snappy,lz4,zstd" default:"none"`
}

// check finds what is out of bounds.
func (c *clientSettings) check() error {
	switch {
	case c.ConsumerFetchMaxWait <= 0 || c.ConsumerFetchMaxWait > 10*time.Second:
		return usagef("--consumer-fetch-max-wait %s is out of bounds; give a time above zero and up to 10s", c.ConsumerFetchMaxWait)
	case c.ProducerLinger <= 0 || c.ProducerLinger > time.Second:
		return usagef("--producer-linger %s is out of bounds; give a time above zero and up to 1s", c.ProducerLinger)
	}
	return nil
}

func (c *clientSettings) options() []millrace.Option {
	return []millrace.Option{millrace.WithFetchMaxWait(c.ConsumerFetchMaxWait), millrace.WithLinger(c.ProducerLinger), millrace.WithCompression(c.ProducerCompression)}
}
