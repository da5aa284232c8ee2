package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/cli"
)

// asApp makes this test binary be the program: main with the application that it names.
const asApp = "MILLRACE_TEST_APP"

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	switch name := os.Getenv(asApp); name {
	case "":
		goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	case "demo":
		main()
	default:
		cli.Main(variant(name))
	}
}

// output collects what a process prints. The mutex is there because os/exec writes from its own goroutine while the test
// reads; wrote is closed and replaced at each write.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.wrote)
	o.wrote = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.wrote
}

// process is the program as a process of its own.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *output
	exited   chan struct{}
}

// begin starts the program for an application: "demo", or a variant.
func begin(t *testing.T, app string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), out: &output{wrote: make(chan struct{})}, err: &output{wrote: make(chan struct{})}, exited: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asApp+"="+app, "XDG_CACHE_HOME="+t.TempDir(), "MILLRACE_LISTEN=127.0.0.1:0"), patient()...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			out, _ := p.out.read()
			errs, _ := p.err.read()
			t.Logf("%v said:\n%s\nand on standard error:\n%s", args, out, errs)
		}
	})
	return p
}

// patience is how long anything may take before a test gives up. Nothing is asserted about how long things take.
const patience = 2 * time.Minute

// patient gives the program as much time: its own time-outs are for people, and a machine that does other work too may need
// longer, for the first answer of a broker already. A test that is about one of them gives it as a flag.
func patient() []string {
	return []string{"MILLRACE_START_TIMEOUT=1m", "MILLRACE_SHUTDOWN_TIMEOUT=1m", "MILLRACE_TIMEOUT=1m"}
}

// says waits until the output holds text; false means that the process ended before, or that patience did.
func (p *process) says(o *output, text string) bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for {
		have, wrote := o.read()
		if strings.Contains(have, text) {
			return true
		}
		select {
		case <-wrote:
		case <-p.exited:
			have, _ := o.read()
			return strings.Contains(have, text)
		case <-ctx.Done():
			return false
		}
	}
}

func (p *process) await(o *output, text string) {
	p.t.Helper()
	if !p.says(o, text) {
		p.t.Fatalf("it has not said %q", text)
	}
}

// result waits for the end.
func (p *process) result() result {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
	out, _ := p.out.read()
	errs, _ := p.err.read()
	return result{p.cmd.ProcessState.ExitCode(), out, errs}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end interrupts it and wants a clean end.
func (p *process) end() result {
	p.t.Helper()
	p.signal(os.Interrupt)
	r := p.result()
	if r.code != 0 {
		p.t.Fatalf("code %d after an interrupt: %s", r.code, r.err)
	}
	return r
}

// base is the URL that it serves on.
func (p *process) base() string {
	p.t.Helper()
	p.await(p.out, "Ctrl-C ends it.")
	out, _ := p.out.read()
	return regexp.MustCompile(`http://[0-9.:]+`).FindString(out)
}

// run runs the program to its end.
func run(t *testing.T, app string, args ...string) result {
	t.Helper()
	return begin(t, app, args...).result()
}

// oneSentence says what is wrong with a refusal: it is one line on standard error, says want, and nothing else is said.
func (r result) oneSentence(code int, want string) error {
	switch {
	case r.code != code:
		return errors.New("another exit code")
	case strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "millrace: "):
		return errors.New("not one sentence")
	case !strings.Contains(r.err, want):
		return errors.New("it does not say " + want)
	}
	return nil
}
