package realkafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cluster is a set of brokers that this process started. Its methods are for one goroutine.
type Cluster struct {
	dir     string
	jars    string
	id      string
	nodes   []*node
	options options
}

// For starts n brokers for a test, which fails if they do not come up, and wipes them when the test ends. If Available
// says no, the test is skipped with that sentence; .ci/run refuses to start on such a machine.
func For(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
	c, err := Start(context.Background(), n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the brokers' last words:\n%s", c.Logs())
		}
		if err := c.Wipe(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Start starts n brokers and returns when each accepts connections. The caller calls Wipe.
func Start(ctx context.Context, n int, opts ...Option) (*Cluster, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	jars, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{jars: jars, id: clusterID(), options: options{heapMiB: 384}}
	for _, o := range opts {
		o(&c.options)
	}
	if c.dir, err = os.MkdirTemp("", "millrace-kafka-"); err != nil {
		return nil, fmt.Errorf("no directory for the brokers' data: %w", err)
	}
	if err := c.start(ctx, n); err != nil {
		return nil, errors.Join(err, c.Wipe())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, n int) error {
	for range n {
		ports, err := FreePorts(2)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, &node{port: ports[0], controllerPort: ports[1]})
	}
	if err := c.each(func(id int) error { return c.format(ctx, id) }); err != nil {
		return err
	}
	for id := range c.nodes {
		if err := c.launch(id + 1); err != nil {
			return err
		}
	}
	return c.each(func(id int) error { return c.nodes[id-1].awaitPort(ctx) })
}

// each runs f for every broker at the same time, because most of it is waiting for a JVM.
func (c *Cluster) each(f func(id int) error) error {
	var g errgroup.Group
	for i := range c.nodes {
		g.Go(func() error { return f(i + 1) })
	}
	return g.Wait()
}

// clusterID is a random Kafka Uuid: 16 bytes in URL-safe base64. A fresh one per cluster, so that state of another
// cluster is never taken for this one's.
func clusterID() string {
	var b [16]byte
	rand.Read(b[:])
	b[0] &= 0x7f // a leading '-' would be read as a flag
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// format writes a broker's settings and gives its log directory the cluster's id.
func (c *Cluster) format(ctx context.Context, id int) error {
	dir := filepath.Join(c.dir, fmt.Sprint(id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	if err := os.WriteFile(c.file(id, "server.properties"), []byte(render(c.properties(id))), 0o644); err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	if out, err := c.Java(ctx, "kafka.tools.StorageTool", "format", "-t", c.id, "-c", c.file(id, "server.properties")); err != nil {
		return fmt.Errorf("broker %d: its log directory cannot be formatted: %w\n%s", id, err, out)
	}
	return nil
}

func (c *Cluster) file(id int, name string) string {
	return filepath.Join(c.dir, fmt.Sprint(id), name)
}

// Brokers are the addresses of all brokers, whether they run or not.
func (c *Cluster) Brokers() []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.address())
	}
	return addresses
}

// Kill ends broker id as a power failure would (SIGKILL) and waits until it is gone.
func (c *Cluster) Kill(id int) { c.nodes[id-1].kill() }

// Stop asks broker id to end (SIGTERM), which hands its leaderships over first, and waits until it is gone. A broker
// that has not ended after 30 s is killed, and that is the error.
func (c *Cluster) Stop(id int) error {
	if err := c.nodes[id-1].stop(30 * time.Second); err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	return nil
}

// Restart starts broker id again on its data and returns when it accepts connections.
func (c *Cluster) Restart(ctx context.Context, id int) error {
	c.Kill(id)
	if err := c.launch(id); err != nil {
		return err
	}
	return c.nodes[id-1].awaitPort(ctx)
}

// Wipe kills every broker of this cluster and deletes their data. A second call does nothing.
func (c *Cluster) Wipe() error {
	for _, n := range c.nodes {
		n.kill()
	}
	return os.RemoveAll(c.dir)
}

// Logs are the last lines of each broker's output.
func (c *Cluster) Logs() string {
	var all []byte
	for i := range c.nodes {
		text, err := os.ReadFile(c.file(i+1, "output"))
		if err != nil {
			continue
		}
		all = fmt.Appendf(all, "broker %d: …%s\n", i+1, tail(text, 2000))
	}
	return string(all)
}
