package realkafka

import (
	"fmt"
	"path/filepath"
	"strings"
)

// options are what a test may choose about a cluster.
type options struct {
	heapMiB int
	extra   []setting
}

// Option chooses something about a cluster.
type Option func(*options)

// HeapMiB sets each broker's heap. The default is 384 MiB, enough for tests; benchmarks give it more.
func HeapMiB(n int) Option { return func(o *options) { o.heapMiB = n } }

// Setting overrides one line of every broker's server.properties.
func Setting(key, value string) Option {
	return func(o *options) { o.extra = append(o.extra, setting{key, value}) }
}

// setting is one line of server.properties.
type setting struct{ key, value string }

// properties are broker id's settings. The order is that of the file; a later line of the same key wins.
func (c *Cluster) properties(id int) []setting {
	replicas, inSync := replication(len(c.nodes))
	n := c.nodes[id-1]
	lines := []setting{
		{"process.roles", "broker,controller"},
		{"node.id", fmt.Sprint(id)},
		{"controller.quorum.voters", c.voters()},
		{"listeners", fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.controllerPort)},
		{"advertised.listeners", fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port)},
		{"controller.listener.names", "CONTROLLER"},
		{"listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"},
		{"log.dirs", filepath.Join(c.dir, fmt.Sprint(id), "log")},
		{"log.segment.bytes", fmt.Sprint(256 << 20)},

		// A misspelt topic must be an error, not a new topic.
		{"auto.create.topics.enable", "false"},
		// The first member of a group need not wait for company; the default of 3 s is most of a small test.
		{"group.initial.rebalance.delay.ms", "0"},
		// An abandoned transaction is aborted within a second of its time-out, not within ten.
		{"transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"},

		{"default.replication.factor", replicas},
		{"min.insync.replicas", inSync},
		{"offsets.topic.num.partitions", "8"},
		{"offsets.topic.replication.factor", replicas},
		{"transaction.state.log.num.partitions", "8"},
		{"transaction.state.log.replication.factor", replicas},
		{"transaction.state.log.min.isr", inSync},
		{"share.coordinator.state.topic.replication.factor", replicas},
		{"share.coordinator.state.topic.min.isr", inSync},
	}
	return append(lines, c.options.extra...)
}

// replication is the replication factor and the in-sync minimum that a cluster of n brokers can hold.
func replication(n int) (replicas, inSync string) {
	if n < 3 {
		return "1", "1"
	}
	return "3", "2"
}

func (c *Cluster) voters() string {
	var voters []string
	for i, n := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, n.controllerPort))
	}
	return strings.Join(voters, ",")
}

// render is the text of a server.properties file.
func render(lines []setting) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s=%s\n", l.key, l.value)
	}
	return b.String()
}
