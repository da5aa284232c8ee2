package millrace

import "time"

// Bounds of the settings of single Kafka clients: above them a record would wait for longer than most commits take, or a
// shutdown for an answer that a broker holds back.
const (
	longestLinger = time.Second
	longestFetch  = 10 * time.Second
	leastFetch    = 16 << 10
	mostFetch     = 4 << 20
	leastRequest  = time.Second
	mostRequest   = 5 * time.Minute
)

// WithLinger is how long a record that is produced waits for others, at most, so that batches fill: linger.ms of the producers. A
// commit sends at once. The default is 20 ms, 1 s the most.
func WithLinger(d time.Duration) Option { return func(o *options) { o.linger = d } }

// WithFetchMaxWait is how long a broker waits for records before it answers that there are none: fetch.max.wait.ms of the
// consumers of stream threads; restores and global stores have their own. The default is 100 ms, 10 s the most.
func WithFetchMaxWait(d time.Duration) Option { return func(o *options) { o.fetchWait = d } }

// WithFetchPartitionBytes is how many bytes of a partition one answer brings, as the broker stores them, at most:
// max.partition.fetch.bytes of the consumers of stream threads. A batch that is larger comes whole. The default is 1 MiB; 16 KiB
// is the least and 4 MiB, which is what a partition may have in memory, the most.
func WithFetchPartitionBytes(n int) Option { return func(o *options) { o.fetchBytes = n } }

// WithClientID is what brokers call the node's clients by, in quotas, metrics and logs: client.id. Behind it comes who the client
// is: -admin and -restore, and of a stream thread -thread-1-consumer and -thread-1-producer. The default is millrace- and
// the application id.
func WithClientID(id string) Option { return func(o *options) { o.clientID = id } }

// WithRequestTimeout is how long an answer may take that the broker does not delay by design: request.timeout.ms of all clients.
// After it the connection is made anew. The default is 15 s; 1 s is the least and 5 min the most.
func WithRequestTimeout(d time.Duration) Option { return func(o *options) { o.request = d } }

func (o *options) checkClients(bad func(option, problem string, args ...any)) {
	if o.linger <= 0 || o.linger > longestLinger {
		bad("WithLinger", "%s is not a time up to %s: use one such as 20ms", o.linger, longestLinger)
	}
	if o.fetchWait <= 0 || o.fetchWait > longestFetch {
		bad("WithFetchMaxWait", "%s is not a time up to %s: use one such as 100ms", o.fetchWait, longestFetch)
	}
	if o.fetchBytes < leastFetch || o.fetchBytes > mostFetch {
		bad("WithFetchPartitionBytes", "%d is out of bounds: use %d to %d", o.fetchBytes, leastFetch, mostFetch)
	}
	if o.clientID != "" && !appIDPattern.MatchString(o.clientID) {
		bad("WithClientID", "%q is no name that brokers can have quotas for: use 1 to 100 of a-z A-Z 0-9 . _ -", o.clientID)
	}
	if o.request < leastRequest || o.request > mostRequest {
		bad("WithRequestTimeout", "%s is out of bounds: use %s to %s", o.request, leastRequest, mostRequest)
	}
}
