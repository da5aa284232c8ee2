// Package raw is the benchmark's own Kafka client: sarama's requests on bare connections, nothing above them. It fills
// topics, reads outputs back to check them, and runs the jobs as a client without a runtime would, which is the limit that
// a runtime on the same client can come near to. It shares no code with Millrace, so that it can check Millrace.
package raw
