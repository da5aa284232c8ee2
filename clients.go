package millrace

import "time"

// Bounds of the settings of single Kafka clients: above them a record would wait for longer than most commits take, or a
// shutdown for an answer that a broker holds back.
const (
	longestLinger = time.Second
	longestFetch  = 10 * time.Second
)

// WithLinger is how long a record that is produced waits for others, at most, so that batches fill: linger.ms of the producers. A
// commit sends at once. The default is 20 ms, 1 s the most.
func WithLinger(d time.Duration) Option { return func(o *options) { o.linger = d } }

// WithFetchMaxWait is how long a broker waits for records before it answers that there are none: fetch.max.wait.ms of the
// consumers of stream threads; restores and global stores have their own. The default is 100 ms, 10 s the most.
func WithFetchMaxWait(d time.Duration) Option { return func(o *options) { o.fetchWait = d } }

func (o *options) checkClients(bad func(option, problem string, args ...any)) {
	if o.linger <= 0 || o.linger > longestLinger {
		bad("WithLinger", "%s is not a time up to %s: use one such as 20ms", o.linger, longestLinger)
	}
	if o.fetchWait <= 0 || o.fetchWait > longestFetch {
		bad("WithFetchMaxWait", "%s is not a time up to %s: use one such as 100ms", o.fetchWait, longestFetch)
	}
}
