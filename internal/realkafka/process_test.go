//go:build realkafka

package realkafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/work"
)

// patience is how long anything may take before a test gives up. Nothing is asserted about how long things take, except
// where a session time-out longer than this makes waiting for it impossible.
const patience = 45 * time.Second

// binary is the program under test, built once: a process of its own can be killed like one.
var binary = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../bin/millrace-under-test")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/node").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cmd/node does not build: %w\n%s", err, out)
	}
	return path, nil
})

// output collects what a process prints. The mutex is there because os/exec writes from its own goroutine while a failing
// test reads.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running node with the word count.
type process struct {
	t      *testing.T
	name   string
	base   string
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
	began  time.Time
	client *http.Client
}

// start runs "millrace run" for an application; state is the directory that a later start can take up.
func start(t *testing.T, name, broker, app, state string, flags ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	args := append([]string{"run", "--brokers", broker, "--app", app, "--state-dir", state, "--listen", address, "--log-level", "debug"}, flags...)
	p := &process{t: t, name: name, base: "http://" + address, cmd: exec.Command(path, args...), out: &output{},
		exited: make(chan struct{}), began: time.Now(),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		p.cmd.Wait() // its exit code is in ProcessState
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.out)
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// end sends a signal and waits for a clean exit.
func (p *process) end(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end after %v", p.name, s)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("%s ended with code %d after %v", p.name, code, s)
	}
}

// awaitRunning waits until the node says that it is ready, and returns how long that took from the start.
func (p *process) awaitRunning() time.Duration {
	p.t.Helper()
	await(p.t, p.name+" is RUNNING", func(ctx context.Context) error {
		select {
		case <-p.exited:
			p.t.Fatalf("%s has ended with code %d", p.name, p.cmd.ProcessState.ExitCode())
		default:
		}
		status, body, err := p.get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
	return time.Since(p.began)
}

func (p *process) get(ctx context.Context, path string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(response.Body)
	return response.StatusCode, b.Bytes(), err
}

// restoredLine is what the log says of each store partition that was restored.
var restoredLine = regexp.MustCompile(`msg=restored .*From:(\d+) Next:\d+ Records:(\d+)`)

// restored sums up, over the store partitions, the changelog offsets that local state began at and the records read.
func (p *process) restored() (from, records int) {
	p.t.Helper()
	var lines [][]string
	await(p.t, p.name+" logs what it restored", func(context.Context) error { // it may be RUNNING before its last line has come
		if lines = restoredLine.FindAllStringSubmatch(p.out.String(), -1); len(lines) < work.Partitions {
			return fmt.Errorf("%d of %d partitions", len(lines), work.Partitions)
		}
		return nil
	})
	for _, l := range lines {
		f, _ := strconv.Atoi(l[1])
		r, _ := strconv.Atoi(l[2])
		from, records = from+f, records+r
	}
	return from, records
}

// count asks this process for a word; 0 if the word is not there. Another status than 200 and 404 is an error.
func (p *process) count(ctx context.Context, word string) (n int64, err error) {
	status, body, err := p.get(ctx, "/stores/counts/keys/"+word)
	switch {
	case err != nil:
		return 0, err
	case status == http.StatusNotFound && bytes.Contains(body, []byte(`"found":false`)):
		return 0, nil
	case status != http.StatusOK:
		return 0, fmt.Errorf("%s: %d %s", p.name, status, body)
	}
	var answer struct{ Value string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer.Value, 10, 64)
}

// await asks until the answer is nil; at the end of patience the last answer fails the test.
func await(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}
