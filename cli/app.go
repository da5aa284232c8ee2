package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/topology"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// From exitAsk on, by the retry class of a question's failure.
)

// App is an application with a command line.
type App struct {
	// Name is the application id that "run" and "dev" use if --app gives no other.
	Name string
	// Topology builds what the application called appID computes. Topics may be named after it.
	Topology func(appID string) (*topology.Topology, error)
	// Demo lets "dev" feed text and print what was counted. Without it, "dev" only brings a broker and the topics.
	Demo *Demo
	// Partitions is how many partitions the topics have that "dev" creates because they are missing; 0 means 4.
	Partitions int32
	// Routes are an interface of the application's own at --listen, by patterns of http.ServeMux, which come before the node's
	// own paths; nil is none. It gets the node, to be asked. With --listen-tokens callers need the right to read every store.
	// What other processes reach at --remote stays the node's.
	Routes func(c query.Client) map[string]http.Handler
}

// build is what the application called id computes, bound to it.
func (a App) build(id string) (*topology.Topology, error) {
	t, err := a.Topology(id)
	if err != nil {
		return nil, failf(err, "the topology cannot be built; mend the application")
	}
	return t.Bind(id), nil
}

// Demo is an application that counts words of text.
type Demo struct {
	// Lines names the source topic of the application called appID. Each record value is a line of text.
	Lines func(appID string) string
	// Counts is the store that holds how often each word was seen.
	Counts topology.KeyValueStore[string, int64]
	// Text is what "dev" feeds if there is no --input.
	Text string
	// Key is a word of Text, for the example of a question that "dev" prints.
	Key string
}

// Process is what a run of the command line has of its surroundings.
type Process struct {
	// Args are the arguments without the program's name.
	Args []string
	// Program is the name that the program was started by, for usage, errors and the completion of a shell; empty is millrace.
	Program string
	// Environ gives the environment as os.Environ does.
	Environ  func() []string
	In       io.Reader
	Out, Err io.Writer
	// Signals delivers interrupts and termination signals; nil delivers none.
	Signals <-chan os.Signal
	// world is what tests put in the place of Kafka; nil is the real one.
	world world
	// now and after are time.Now and time.AfterFunc if they are nil.
	now   func() time.Time
	after func(d time.Duration, f func()) *time.Timer
}

// Main runs the command line of this process and ends it. The collector keeps to the memory limit of the container that the
// process is in, unless GOMEMLIMIT names another.
func Main(app App) {
	limitMemory(memlimit.FromCgroup)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(Run(context.Background(), app, Process{
		Args: os.Args[1:], Program: os.Args[0], Environ: os.Environ, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Signals: signals,
	}))
}

// Run runs the command line and returns the exit code: 0, 1 for a failure, 2 for a mistake in the command line or the
// settings, and for a question that a node does not answer 10 (ask again here), 11 (find the owner), 12 (ask another node)
// or 13 (never). An absent key is an answer. Cancelling ctx is an interrupt.
func Run(ctx context.Context, app App, p Process) int {
	if p.now == nil {
		p.now = time.Now
	}
	if p.after == nil {
		p.after = time.AfterFunc
	}
	cmd, err := parse(app, p)
	if err == nil && cmd != nil {
		err = cmd.run(ctx)
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(p.Err, "%s: %s\n", titleOf(p.Program), sentence(err))
	var usage *UsageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	if ask := (*AskError)(nil); errors.As(err, &ask) {
		return ask.exit()
	}
	return exitFailure
}
