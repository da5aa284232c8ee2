package realkafka

import (
	"context"
	"os/exec"
	"strings"
)

// Java runs a class of Kafka's jars to its end and returns what it printed on both outputs.
func (c *Cluster) Java(ctx context.Context, class string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "java", append(append(c.jvm("-Xmx128m", "-XX:TieredStopAtLevel=1"), class), args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Groups runs kafka-consumer-groups: Groups(ctx, "--describe", "--members", "--group", name).
func (c *Cluster) Groups(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", args)
}

// Topics runs kafka-topics: Topics(ctx, "--create", "--topic", "lines", "--partitions", "4").
func (c *Cluster) Topics(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "org.apache.kafka.tools.TopicCommand", args)
}

func (c *Cluster) tool(ctx context.Context, class string, args []string) (string, error) {
	servers := []string{"--bootstrap-server", strings.Join(c.Brokers(), ",")}
	return c.Java(ctx, class, append(servers, args...)...)
}
