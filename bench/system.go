package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// assignment is what one run of a system is given.
type assignment struct {
	job                 work.Job
	app, in, out, state string
	records             int
	// until is done, running or stopped; leave says that the group is left at the end, where the default is another.
	until string
	leave bool
}

// system is something that can do jobs: a program that prints a measurement as its last line.
type system struct {
	name string
	// program is the one of builders that builds it.
	program string
	command func(b *bench, a assignment) []string
	does    func(j work.Job) bool
	// parse reads the last line.
	parse func(line string) (measure.Result, error)
	// out is the output topic if the program has one of its own.
	out string
}

// Names of systems that others are compared with.
const peer, ceiling, ours, shared = "kafka-streams", "raw", "millrace", "shared-peer"

var systems = []system{
	{name: ceiling, program: ceiling, command: rawCommand, does: steady, parse: measure.Parse},
	{name: peer, program: peer, command: peerCommand, does: every, parse: measure.Parse},
	{name: peer + "-leave", program: peer, command: leaving(peerCommand), does: restarts, parse: measure.Parse},
	{name: ours, program: ours, command: leaving(millraceCommand), does: every, parse: measure.Parse},
	{name: ours + "-stay", program: ours, command: millraceCommand, does: restarts, parse: measure.Parse},
	{name: shared, program: shared, command: sharedCommand, does: sharedDoes, parse: parseShared, out: "out"},
}

var builders = map[string]func(context.Context, *bench) error{
	ceiling: buildGo("ceiling"), peer: buildPeer, ours: buildGo("millrace"), shared: buildShared,
}

func every(work.Job) bool      { return true }
func steady(j work.Job) bool   { return j.Course == work.Steady }
func restarts(j work.Job) bool { return j.Course == work.Restarts }

func leaving(command func(*bench, assignment) []string) func(*bench, assignment) []string {
	return func(b *bench, a assignment) []string {
		a.leave = true
		return command(b, a)
	}
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
	return []string{filepath.Join(b.dir, "ceiling"), "-broker", b.broker, "-does", a.job.Does, "-app", a.app, "-in", a.in, "-out", a.out,
		"-compression", a.job.Input.Compression, "-records", fmt.Sprint(a.records), "-counted", fmt.Sprint(a.job.Counted(a.records)),
		fmt.Sprintf("-exactly-once=%t", a.job.Guarantee == "exactly_once"), fmt.Sprintf("-every-update=%t", a.job.Uncached)}
}

// reads is how many keys are read from; 0 for jobs that are not about that.
func (a assignment) reads() int {
	if a.job.Course != work.Reads {
		return 0
	}
	return a.job.Input.KeyCount(a.records)
}

func (a assignment) compression() string {
	return cmp.Or(a.job.Input.Compression, "none")
}

func millraceCommand(b *bench, a assignment) []string {
	command := []string{filepath.Join(b.dir, "millrace"), "-brokers", b.broker, "-does", a.job.Does, "-app", a.app, "-guarantee", a.job.Guarantee,
		"-in", a.in, "-out", a.out, "-state", a.state, "-compression", a.compression(), "-until", a.until,
		"-records", fmt.Sprint(a.records), "-counted", fmt.Sprint(a.job.Counted(a.records)), "-reads", fmt.Sprint(a.reads()),
		fmt.Sprintf("-every-update=%t", a.job.Uncached), fmt.Sprintf("-leave=%t", a.leave)}
	if a.reads() > 0 { // docs/queries.md says why
		command = append(command, "-procs", fmt.Sprint(b.procsPerCore*runtime.NumCPU()))
	}
	if b.cacheMiB > 0 {
		command = append(command, "-store-cache", fmt.Sprint(b.cacheMiB<<20))
	}
	if b.profile != "" {
		command = append(command, "-profile", filepath.Join(b.profile, a.app))
	}
	return command
}

// peerClasses is the class path of the peer's libraries, and of what was compiled into classes.
func peerClasses(classes string) string {
	return classes + string(os.PathListSeparator) + filepath.Join(peerProject, "target", "libs", "*")
}

// peerCommand gives the peer what its documentation recommends for a small machine: a heap of 1 GiB, two threads.
func peerCommand(b *bench, a assignment) []string {
	command := []string{"java", "-Xmx1g", "-cp", peerClasses(filepath.Join(peerProject, "target", "classes")), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"}
	properties := [][2]string{
		{"brokers", b.broker}, {"does", a.job.Does}, {"guarantee", a.job.Guarantee}, {"app", a.app}, {"in", a.in}, {"out", a.out}, {"state", a.state},
		{"records", fmt.Sprint(a.records)}, {"counted", fmt.Sprint(a.job.Counted(a.records))}, {"compression", a.compression()},
		{"until", a.until}, {"leave", fmt.Sprint(a.leave)}, {"reads", fmt.Sprint(a.reads())},
	}
	if a.job.Uncached {
		properties = append(properties, [2]string{"cache", "0"})
	}
	for _, property := range properties {
		command = append(command, "-D"+property[0]+"="+property[1])
	}
	return append(command, "Peer")
}
