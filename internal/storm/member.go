package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// member is one of the three nodes: its process, and how to ask it. Its process is for one goroutine.
type member struct {
	name string
	dir  string
	// address is where it is asked, control where it is told what to do.
	address, control string
	http             *http.Client
	// down is set before the process is killed.
	down    atomic.Bool
	process *exec.Cmd
	exited  chan struct{}
}

// startMember runs a node; it has said where it listens when this returns.
func startMember(number int, dir string, brokers []string, clients int) (*member, error) {
	m := &member{name: fmt.Sprintf("node-%d", number), exited: make(chan struct{}),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	m.dir = filepath.Join(dir, m.name)
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, err
	}
	out, err := os.Create(m.log())
	if err != nil {
		return nil, err
	}
	defer out.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m.process = exec.Command(self, "node", "-brokers", strings.Join(brokers, ","), "-state", filepath.Join(m.dir, "state"))
	m.process.Stderr, m.process.SysProcAttr = out, child()
	said, err := m.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.process.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", m.name, err)
	}
	lines := bufio.NewScanner(said)
	lines.Scan()
	m.address, m.control, _ = strings.Cut(lines.Text(), " ")
	go func() {
		defer close(m.exited)
		m.process.Wait() // how it ended is in ProcessState
	}()
	if m.control == "" {
		return m, errors.New(m.name + " has not said where it listens")
	}
	return m, nil
}

func (m *member) log() string { return filepath.Join(m.dir, "log") }

// kill ends the process with SIGKILL.
func (m *member) kill() {
	m.down.Store(true)
	m.process.Process.Kill() // it may have ended already
	<-m.exited
	m.http.CloseIdleConnections()
}

// alive is an error if the process has ended and was not killed.
func (m *member) alive() error {
	select {
	case <-m.exited:
		if !m.down.Load() {
			return fmt.Errorf("%s has ended by itself: %s", m.name, m.process.ProcessState)
		}
	default:
	}
	return nil
}

func (m *member) status(ctx context.Context) (s status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, body, err := m.request(ctx, http.MethodGet, m.control, "/status", nil)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

// rebalance is the forced one.
func (m *member) rebalance(ctx context.Context) error {
	status, body, err := m.request(ctx, http.MethodPost, m.control, "/rebalance", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s does not rebalance: %s", m.name, strings.TrimSpace(string(body)))
	}
	return err
}

// tail is the end of the node's log.
func (m *member) tail(size int) string {
	text, err := os.ReadFile(m.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}
