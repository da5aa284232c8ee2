package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// process is a system at work.
type process struct {
	cmd   *exec.Cmd
	parse func(string) (measure.Result, error)
	// stop ends a system that works until it is stopped.
	stop io.Closer
	// running is closed when the system says RUNNING, ended when its output ends; last is the last line by then.
	running, ended chan struct{}
	last           string
	complaints     bytes.Buffer
}

// start starts a system. One that overstays ctx is asked to end, then killed.
func (b *bench) start(ctx context.Context, s system, a assignment) (*process, error) {
	command := s.command(b, a)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	p := &process{cmd: cmd, parse: s.parse, running: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = &p.complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stop = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out)
	return p, nil
}

func (p *process) listen(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.last = lines.Text()
		if p.last == "RUNNING" {
			close(p.running)
		}
	}
}

// awaitRunning waits until the system says so. One that ends first has failed.
func (p *process) awaitRunning() error {
	select {
	case <-p.running:
		return nil
	case <-p.ended:
		_, err := p.result()
		return fmt.Errorf("it ended before it was RUNNING: %w", err)
	}
}

// result waits for the end.
func (p *process) result() (r measure.Result, err error) {
	<-p.ended
	if err := p.cmd.Wait(); err != nil {
		return r, fmt.Errorf("%w\n%s\n%s", err, p.last, p.complaints.Bytes())
	}
	return p.parse(p.last)
}

// once runs a system to its end.
func (b *bench) once(ctx context.Context, s system, a assignment) (r measure.Result, err error) {
	p, err := b.start(ctx, s, a)
	if err != nil {
		return r, err
	}
	return p.result()
}
