// Package wire is the chaos run's own Kafka client: sarama's requests on bare connections and nothing of Millrace's
// client, so that it can check what that one did. It tries everything again until its context ends, because brokers come
// and go under it.
package wire
