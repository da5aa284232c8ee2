package realkafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// node is one broker: two ports for life, and a process while it runs.
type node struct {
	port, controllerPort int
	process              *os.Process
	// exited is closed when process has ended and was waited for.
	exited chan struct{}
}

func (n *node) address() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// launch starts broker id's JVM, which dies with this process where the system can arrange that.
func (c *Cluster) launch(id int) error {
	n := c.nodes[id-1]
	out, err := os.OpenFile(c.file(id, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	defer out.Close()
	heap := c.options.heapMiB
	cmd := exec.Command("java", append(c.jvm(fmt.Sprintf("-Xmx%dm", heap), fmt.Sprintf("-Xms%dm", heap), "-XX:+UseG1GC"),
		"kafka.Kafka", c.file(id, "server.properties"))...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("broker %d does not start: %w", id, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // how it ended is in its output; that it ended is all we need
	}()
	n.process, n.exited = cmd.Process, exited
	return nil
}

// jvm is the head of every java command line: flags, class path, quiet logging.
func (c *Cluster) jvm(flags ...string) []string {
	return append(flags, "-cp", filepath.Join(c.jars, "*"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
}

// awaitPort waits until the broker accepts connections: an error if it ends first, or after three minutes.
func (n *node) awaitPort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.DialTimeout("tcp", n.address(), time.Second); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-n.exited:
			return fmt.Errorf("the broker of %s ended before it opened its port", n.address())
		case <-ctx.Done():
			return fmt.Errorf("the broker of %s has not opened its port: %w", n.address(), ctx.Err())
		}
	}
}

func (n *node) kill() {
	if n.process == nil {
		return
	}
	n.process.Kill()
	<-n.exited
	n.process = nil
}

func (n *node) stop(patience time.Duration) error {
	if n.process == nil {
		return nil
	}
	if err := n.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("it cannot be asked to end: %w", err)
	}
	select {
	case <-n.exited:
		n.process = nil
		return nil
	case <-time.After(patience):
		n.kill()
		return fmt.Errorf("it had to be killed after %s", patience)
	}
}

// FreePorts returns n ports that nobody listens on. They lie below the range that systems take client ports from: a
// client that redials a dead broker from inside that range sooner or later gets the broker's own port as its source,
// connects to itself, and the broker cannot start again.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // only at the end, so that no port is drawn twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free port between 12000 and 30000 on 127.0.0.1")
}
