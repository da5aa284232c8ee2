//go:build realkafka

package realkafka

import (
	"context"
	"net"
	"strings"
	"testing"
)

// A broker keeps its topics and its port through a kill and through a stop, and Wipe leaves nothing listening.
func TestBrokerComesBackWithItsData(t *testing.T) {
	c := For(t, 1)
	ctx := context.Background()
	if out, err := c.Topics(ctx, "--create", "--topic", "lines", "--partitions", "4"); err != nil {
		t.Fatal(err, out)
	}
	address := c.Brokers()[0]
	c.Kill(1)
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Fatal("a killed broker still accepts connections")
	}
	if err := c.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	assertLines(t, c)
	if err := c.Stop(1); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	assertLines(t, c)
}

func assertLines(t *testing.T, c *Cluster) {
	t.Helper()
	out, err := c.Topics(context.Background(), "--describe", "--topic", "lines")
	if err != nil || !strings.Contains(out, "PartitionCount: 4") {
		t.Fatalf("the topic did not survive: %v\n%s", err, out)
	}
}

// Three brokers form one cluster in which internal topics have three replicas.
func TestThreeBrokersReplicate(t *testing.T) {
	c := For(t, 3)
	ctx := context.Background()
	if out, err := c.Topics(ctx, "--create", "--topic", "lines", "--partitions", "4"); err != nil {
		t.Fatal(err, out)
	}
	out, err := c.Topics(ctx, "--describe", "--topic", "lines")
	if err != nil || !strings.Contains(out, "ReplicationFactor: 3") {
		t.Fatalf("three brokers do not replicate three times: %v\n%s", err, out)
	}
}
