package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// node is one of the three: a state directory, and the process that has it now. Its methods are for one goroutine.
type node struct {
	number  int
	dir     string
	brokers string
	choices settings
	// remote is where all its processes answer questions; empty if they do not.
	remote string
	client *http.Client
	// incarnation counts the processes from 1 on.
	incarnation int
	process     *exec.Cmd
	// exited is closed when process has ended and was waited for.
	exited chan struct{}
}

func newNode(number int, dir, brokers string, choices settings) *node {
	return &node{number: number, dir: dir, brokers: brokers, choices: choices, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (n *node) name() string     { return fmt.Sprintf("node %d", n.number) }
func (n *node) path() string     { return filepath.Join(n.dir, fmt.Sprintf("node-%d", n.number)) }
func (n *node) stateDir() string { return filepath.Join(n.path(), "state") }
func (n *node) logFile() string  { return filepath.Join(n.path(), "log") }
func (n *node) report(incarnation int) string {
	return filepath.Join(n.path(), fmt.Sprint(incarnation))
}

// start runs the next process. Its output goes to the end of the node's log.
func (n *node) start() error {
	if err := os.MkdirAll(n.stateDir(), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	n.incarnation++
	fmt.Fprintf(out, "---- process %d of %s\n", n.incarnation, n.name())
	s := nodeSettings{brokers: n.brokers, state: n.stateDir(), report: n.report(n.incarnation), guarantee: n.choices.guarantee, threads: n.choices.threads, remote: n.remote}
	n.process = exec.Command(self, s.args()...)
	n.process.Stdout, n.process.Stderr = out, out
	n.process.SysProcAttr = child()
	if err := n.process.Start(); err != nil {
		return fmt.Errorf("%s does not start: %w", n.name(), err)
	}
	exited, process := make(chan struct{}), n.process
	n.exited = exited
	go func() {
		defer close(exited)
		process.Wait() // how it ended is in ProcessState
	}()
	return nil
}

// alive is an error if the process has ended.
func (n *node) alive() error {
	if n.process == nil {
		return nil
	}
	select {
	case <-n.exited:
		return fmt.Errorf("%s has ended by itself: %s", n.name(), n.process.ProcessState)
	default:
		return nil
	}
}

// kill ends the process with SIGKILL, stopped or not.
func (n *node) kill() {
	if n.process == nil {
		return
	}
	n.process.Process.Kill() // it may have ended already
	<-n.exited
	n.process = nil
}

// end asks the process to end and waits for a clean exit.
func (n *node) end(ctx context.Context, leave bool) error {
	s := stay
	if leave {
		s = os.Interrupt
	}
	if err := n.process.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %w", n.name(), err)
	}
	select {
	case <-n.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(endLimit + time.Second):
		return &hung{waited: n.name() + " to end after " + s.String(), limit: endLimit}
	}
	if !n.process.ProcessState.Success() {
		return fmt.Errorf("%s was asked to end and ended with: %s", n.name(), n.process.ProcessState)
	}
	n.process = nil
	return nil
}

func (n *node) signal(s os.Signal) error {
	if s == nil {
		return errors.New("this system cannot stop a process and let it go on")
	}
	return n.process.Process.Signal(s)
}

// ask makes a request to the process.
func (n *node) ask(ctx context.Context, method, path string, into any) error {
	if n.process == nil {
		return fmt.Errorf("%s is down", n.name())
	}
	address, err := os.ReadFile(n.report(n.incarnation) + addressSuffix)
	if err != nil {
		return fmt.Errorf("%s has not said where it listens", n.name())
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+string(address)+path, nil)
	if err != nil {
		return err
	}
	response, err := n.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", n.name(), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", n.name(), err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", n.name(), path, strings.TrimSpace(string(body)))
	case into == nil:
		return os.WriteFile(filepath.Join(n.path(), strings.TrimPrefix(path, "/")), body, 0o600)
	}
	return json.Unmarshal(body, into)
}

// status asks for the state; a process that does not answer within two seconds does not answer.
func (n *node) status(ctx context.Context) (s status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s, n.ask(ctx, http.MethodGet, "/status", &s)
}

// counters are the last reported ones of a process; false if it has reported nothing.
func (n *node) counters(incarnation int) (c counters, ok bool) {
	text, err := os.ReadFile(n.report(incarnation) + countsSuffix)
	if err != nil {
		return c, false
	}
	// A process that was killed while it wrote leaves half a line at the end.
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		if json.Unmarshal(line, &c) == nil {
			ok = true
		}
	}
	return c, ok
}

// tail is the end of the node's log.
func (n *node) tail(size int) string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}
