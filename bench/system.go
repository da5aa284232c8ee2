package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// assignment is what one run of a system is given.
type assignment struct {
	job             work.Job
	app, out, state string
	records         int
}

// system is something that can do the jobs: a program that prints a measure.Result as its last line.
type system struct {
	name    string
	build   func(ctx context.Context, b *bench) error
	command func(b *bench, a assignment) []string
	// only is the one guarantee that it has; empty if it has both.
	only string
}

func (s system) does(j work.Job) bool {
	return (s.only == "" || s.only == j.Guarantee) && !(j.Reads && s.name == ceiling)
}

var systems = []system{
	{"raw", buildGo("ceiling"), rawCommand, "at_least_once"},
	{"kafka-streams", buildPeer, peerCommand, ""},
	{"millrace", buildGo("millrace"), millraceCommand, ""},
}

func findSystem(name string) (system, error) {
	var names []string
	for _, s := range systems {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return system{}, fmt.Errorf("there is no system %q: it is one of %s", name, strings.Join(names, ", "))
}

func buildGo(program string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		return quietly(ctx, "go", "build", "-o", filepath.Join(b.dir, program), "./bench/"+program)
	}
}

const peerProject = "bench/kafkastreams"

func buildPeer(ctx context.Context, _ *bench) error {
	return quietly(ctx, "mvn", "-q", "-B", "-f", filepath.Join(peerProject, "pom.xml"), "compile",
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=target/libs")
}

// quietly runs a command whose output matters only if it fails.
func quietly(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func rawCommand(b *bench, a assignment) []string {
	return []string{filepath.Join(b.dir, "ceiling"), "-broker", b.broker, "-job", a.job.Name, "-app", a.app, "-out", a.out,
		"-records", fmt.Sprint(a.records)}
}

func millraceCommand(b *bench, a assignment) []string {
	command := []string{filepath.Join(b.dir, "millrace"), "-brokers", b.broker, "-job", a.job.Name, "-app", a.app,
		"-guarantee", a.job.Guarantee, "-in", a.job.Input, "-out", a.out, "-state", a.state, "-records", fmt.Sprint(a.records)}
	if b.profile != "" {
		command = append(command, "-profile", filepath.Join(b.profile, a.app))
	}
	return command
}

// peerCommand gives the peer what its documentation recommends for a small machine: a heap of 1 GiB, two threads.
func peerCommand(b *bench, a assignment) []string {
	command := []string{"java", "-Xmx1g", "-cp", filepath.Join(peerProject, "target", "classes") + string(os.PathListSeparator) +
		filepath.Join(peerProject, "target", "libs", "*"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"}
	for _, property := range [][2]string{
		{"brokers", b.broker}, {"job", a.job.Name}, {"guarantee", a.job.Guarantee}, {"app", a.app}, {"in", a.job.Input}, {"out", a.out}, {"state", a.state},
		{"records", fmt.Sprint(a.records)}, {"counted", fmt.Sprint(a.job.Counted(a.records))},
	} {
		command = append(command, "-D"+property[0]+"="+property[1])
	}
	return append(command, "Peer")
}

// child runs a system and reads its last line. A child that overstays is asked to end, then killed.
func (b *bench) child(ctx context.Context, command []string) (r measure.Result, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%w\n%s%s", err, out.Bytes(), complaints.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		return r, fmt.Errorf("its last line is not a measurement: %w\n%s", err, out.Bytes())
	}
	return r, nil
}
