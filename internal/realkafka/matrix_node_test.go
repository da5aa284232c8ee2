//go:build realkafka

package realkafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// matrixNode is what a child is told.
type matrixNode struct {
	Brokers    []string
	App, State string
	// Ends: a failure of a thread ends the node. Patient: a thread that has failed waits for hours.
	Ends, Patient bool
	// Global: it has the global store.
	Global bool
}

const matrixVariable = "MILLRACE_MATRIX_NODE"

// TestMatrixNode is not a test: it is the process of a node that the tests of the matrix start and talk to.
func TestMatrixNode(t *testing.T) {
	text := os.Getenv(matrixVariable)
	if text == "" {
		t.Skip("it is the child process of TestMatrixTwoProcesses")
	}
	var s matrixNode
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &matrixChild{blocks: map[string]chan struct{}{}, held: map[string]bool{}}
	if c.node, err = millrace.New(s.App, c.topology(t, &s), s.options(l.Addr().String())...); err != nil {
		t.Fatal(err)
	}
	fmt.Println("listens on", l.Addr())
	t.Fatal(http.Serve(l, c.door())) // the parent kills it
}

func (s matrixNode) options(endpoint string) []millrace.Option {
	opts := []millrace.Option{millrace.WithBrokers(s.Brokers...), millrace.WithStateDir(s.State), millrace.WithThreads(1),
		millrace.WithEndpoint(endpoint), millrace.WithStartTimeout(2 * time.Minute), millrace.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))), millrace.WithSessionTimeout(6 * time.Second)}
	if s.Ends {
		opts = append(opts, millrace.WithUncaughtHandler(func(millrace.Failure) actors.Answer { return actors.ShutdownNode }))
	}
	if s.Patient {
		opts = append(opts, millrace.WithRestarts(actors.Intensity{Max: 3, Window: time.Hour, First: 2 * time.Hour, Cap: 2 * time.Hour}))
	}
	return opts
}

// matrixChild is a node that its parent moves through its states.
type matrixChild struct {
	node *millrace.Node
	slip sync.Once
	// mu protects blocks, one for each line that begins with "block", closed when it may go on, and which of them have come.
	mu     sync.Mutex
	blocks map[string]chan struct{}
	held   map[string]bool
}

// hold waits until the line may go on.
func (c *matrixChild) hold(line string) {
	block := c.block(line)
	c.mu.Lock()
	c.held[line] = true
	c.mu.Unlock()
	<-block
}

// holding are the lines that have come to be held.
func (c *matrixChild) holding() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.held)
}

func (c *matrixChild) block(line string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[line] == nil {
		c.blocks[line] = make(chan struct{})
	}
	return c.blocks[line]
}

var (
	matrixCounts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	matrixTopic  = func(app string) string { return app + "-lines" }
)

// topology counts lines by key. A line that says "poison" breaks the thread, one that says "slip" the first time, and one
// that begins with "block" holds it until the parent lets it go on.
func (c *matrixChild) topology(t *testing.T, s *matrixNode) *topology.Topology {
	b := topology.NewBuilder()
	lines := topology.From(b, topology.NewTopic(matrixTopic(s.App), codec.String, codec.String))
	topology.Count(topology.Filter(lines, func(r record.Record[string, string]) bool {
		switch {
		case r.Value == "poison":
			panic("poison")
		case r.Value == "slip":
			c.slip.Do(func() { panic("a slip") })
		case strings.HasPrefix(r.Value, "block"):
			c.hold(r.Value)
		}
		return true
	}), matrixCounts)
	if s.Global {
		b.AddGlobalStore(matrixCountries(s.App, newMoody(c)))
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// matrixStatus is what a child says of itself.
type matrixStatus struct {
	State   string
	Owned   int
	Threads map[string]matrixThread
	Held    map[string]bool
}

func (c *matrixChild) door() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /ask/", c.node.Handler())
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(matrixStatus{c.node.State().String(), len(c.node.Owned()), asMatrixThreads(c.node.Threads()), c.holding()})
	})
	mux.HandleFunc("POST /run", func(http.ResponseWriter, *http.Request) { go c.node.Run(context.Background()) })
	mux.HandleFunc("POST /shutdown", func(http.ResponseWriter, *http.Request) { go c.node.Shutdown(context.Background()) })
	mux.HandleFunc("POST /unblock", func(_ http.ResponseWriter, r *http.Request) { close(c.block(r.FormValue("line"))) })
	mux.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) {
		if _, err := c.node.AddThread(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /remove", func(w http.ResponseWriter, r *http.Request) {
		if err := c.node.RemoveThread(r.Context(), r.FormValue("thread")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// remote is a child as its parent sees it.
type remote struct {
	direct
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
}

// spawn starts a child; its node is CREATED.
func spawn(t *testing.T, name string, s matrixNode) *remote {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	r := &remote{t: t, name: name, out: &output{}, exited: make(chan struct{}), cmd: exec.Command(os.Args[0], "-test.run=^TestMatrixNode$"),
		direct: direct{http: &http.Client{Transport: transport}}}
	r.cmd.Env = append(os.Environ(), matrixVariable+"="+string(text))
	r.cmd.Stderr, r.cmd.SysProcAttr = r.out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.exited
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, r.out)
		}
	})
	first := bufio.NewScanner(said)
	first.Scan()
	go func() {
		defer close(r.exited)
		r.cmd.Wait() // it is killed
	}()
	var ok bool
	if _, r.address, ok = strings.Cut(first.Text(), "listens on "); !ok {
		t.Fatalf("%s says %q", name, first.Text())
	}
	return r
}

// do has the child do something.
func (r *remote) do(path string) {
	r.t.Helper()
	status, body, err := r.request(r.t.Context(), http.MethodPost, path, nil)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s, %v", r.name, path, status, body, err)
	}
}

func (r *remote) status(ctx context.Context) (s matrixStatus, err error) {
	_, body, err := r.request(ctx, http.MethodGet, "/status", nil)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

// awaitStatus waits for what the child says of itself.
func (r *remote) awaitStatus(what string, ok func(matrixStatus) bool) {
	r.t.Helper()
	await(r.t, r.name+" "+what, func(ctx context.Context) error {
		s, err := r.status(ctx)
		if err == nil && !ok(s) {
			err = fmt.Errorf("it says %+v", s)
		}
		return err
	})
}
