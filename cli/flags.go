package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// grammar is the command line as kong reads it.
type grammar struct {
	Config string   `help:"YAML file with settings; keys are named as the flags." placeholder:"FILE"`
	Dev    devCmd   `cmd:"" help:"${dev}"`
	Run    nodeCmd  `cmd:"" help:"Run the application against a Kafka cluster."`
	Check  checkCmd `cmd:"" help:"Check the settings that run would have, and show each with where it comes from."`

	Get    getCmd    `cmd:"" help:"Ask a node for one key."`
	Scan   scanCmd   `cmd:"" help:"Ask a node for entries, partition by partition in the order of their keys."`
	Stores storesCmd `cmd:"" help:"Ask a node which stores there are."`
	Owners ownersCmd `cmd:"" help:"Ask a node who has a store's partitions, or the one of a key."`
	Tree   treeCmd   `cmd:"" help:"Ask a node what is in it: states, incarnations, last causes, mailboxes, restarts."`
	Task   taskCmd   `cmd:"" help:"Tasks that keep failing at one record: list them, and say what is to be done."`

	Reset    resetCmd    `cmd:"" help:"Take an application back to before its first record: offsets, internal topics and the state of this machine."`
	Topology topologyCmd `cmd:"" help:"Show what the application computes, without asking anything: as text, or as a graph for Mermaid or Graphviz."`
	Version  versionCmd  `cmd:"" help:"Say what this binary was built from."`

	Completion completionCmd `cmd:"" help:"Print what makes a shell complete verbs, flags and the names of stores: source it."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"What the scripts of completion call."`
}

// settings are what "dev" and "run" have in common.
type settings struct {
	App             string        `help:"Application id: the consumer group, and the first part of topic names." placeholder:"NAME"`
	Brokers         []string      `help:"Kafka brokers to use." placeholder:"HOST:PORT"`
	StateDir        string        `help:"Directory for the stores; each process needs its own." placeholder:"DIR"`
	Threads         int           `help:"Stream threads." default:"1"`
	StoreCacheBytes int64         `help:"Memory for hot values of all stores, in bytes; by default 64 MiB, or an eighth of the memory that the process may have if that is more, up to 1 GiB." placeholder:"BYTES"`
	Guarantee       string        `help:"What a crash may do to results: exactly_once or at_least_once." enum:"exactly_once,at_least_once" default:"exactly_once"`
	CommitInterval  time.Duration `help:"Time between commits." default:"100ms"`
	SessionTimeout  time.Duration `help:"Time after which the group gives up a process that is silent." default:"10s"`
	StartTimeout    time.Duration `help:"Time to wait for a broker at the start." default:"10s"`
	ShutdownTimeout time.Duration `help:"Time that the last commit and the closing of the stores may take." default:"30s"`
	Listen          string        `help:"Address for health, questions and orders; by default the first free port of 127.0.0.1 from 8080 on. One that other machines can reach needs --listen-cert, --listen-key and --listen-tokens." placeholder:"HOST:PORT"`
	Leave           bool          `help:"Leave the group on SIGTERM too, as on Ctrl-C, so that others take over at once."`
	Pprof           bool          `help:"Serve Go's profiles at /debug/pprof/ of --listen, to those who may operate."`
	LogLevel        slog.Level    `help:"Least level that is logged: debug, info, warn or error." default:"warn"`
	LogFormat       string        `help:"Form of the log: text or json." enum:"text,json" default:"text"`
	kafkaSettings
	clientSettings
	traceSettings
	listenSettings
	remoteSettings
}

type devCmd struct {
	settings
	Once  bool     `help:"Count the input, print word<TAB>count lines sorted by byte order, and end."`
	Input []string `help:"File, or folder to read with everything under it; repeat for more. With --once and no input, standard input is read." placeholder:"PATH" sep:"none"`
}

type nodeCmd struct {
	settings
	creation
}

// creation is for "run" alone: "dev" is there to make what is missing.
type creation struct {
	CreateTopics bool `help:"Make internal topics that are missing; without, run ends and prints the commands that make them." negatable:"" default:"true"`
}

// command is a parsed "dev" or "run" that is ready to run.
type command struct {
	app  App
	proc Process
	settings
	creation
	dev   bool
	once  bool
	input []string
}

// parse reads the command line and the settings. The verb is nil if there is nothing more to do (--help).
func parse(app App, p Process) (verb, error) {
	var g grammar
	done, sources := false, &layers{environ: p.Environ}
	parser, err := g.parser(app, titleOf(p.Program), kong.Writers(p.Out, p.Err), kong.Exit(func(int) { done = true }), kong.Resolvers(sources))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(helped(p.Args))
	if done {
		return nil, nil
	}
	if err != nil {
		return nil, sources.attribute(asUsage(err, parser.Model.Node))
	}
	if err := secretsOf(parsed, sources); err != nil {
		return nil, err
	}
	if q := g.asks(parsed.Command(), p.Out); q != nil {
		return q, nil
	}
	switch parsed.Command() {
	case "completion <shell>":
		return &completion{g.Completion.Shell, programName(p.Program), p.Out}, nil
	case "complete", "complete <words>":
		return &completing{candidates(parser.Model.Node, g.Complete.typed(), app.storesOf), p.Out}, nil
	case "topology":
		return &drawing{g.Topology, app, p.Out}, nil
	case "check":
		c := &checking{command: command{app: app, proc: p, settings: g.Check.settings, creation: g.Check.creation}, json: g.Check.Output == "json", rows: effective(parsed, sources)}
		return c, sources.attribute(c.check())
	case "reset":
		r := &reset{command: &command{app: app, proc: p}, resetCmd: g.Reset}
		return r, sources.attribute(r.check())
	case "version":
		return &version{p.Out, debug.ReadBuildInfo, g.Version.Output == "json"}, nil
	}
	cmd := &command{app: app, proc: p, settings: g.Run.settings, creation: g.Run.creation}
	if parsed.Command() == "dev" {
		cmd.settings, cmd.dev, cmd.once, cmd.input = g.Dev.settings, true, g.Dev.Once, g.Dev.Input
	}
	return cmd, sources.attribute(cmd.check())
}

// What "dev" is, for an application that counts text and for any other.
const (
	devOfDemo = "Try the application: embedded broker, topics and text to count; with --once, count files and print the result."
	devOfAny  = "Try the application: embedded broker and empty topics, for other programs to write to."
)

func (g *grammar) parser(app App, program string, options ...kong.Option) (*kong.Kong, error) {
	dev := devOfAny
	if app.Demo != nil {
		dev = devOfDemo
	}
	own := []kong.Option{kong.Name(program), kong.Vars{"dev": dev}, kong.Description("Stream processing on Apache Kafka, with stores that can be asked.")}
	parser, err := kong.New(g, append(own, options...)...)
	if err != nil {
		return nil, fmt.Errorf("the command line's own grammar is wrong: %w", err)
	}
	return parser, nil
}

// secretsOf refuses secrets where others can read them.
func secretsOf(ctx *kong.Context, l *layers) error {
	for _, f := range ctx.Selected().Flags {
		if _, ok := f.Target.Interface().(secret); !ok {
			continue
		}
		ways := fmt.Sprintf("give it in %s, or a file that holds it alone with --%s-file", variable(f.Name), f.Name)
		switch {
		case sourceOf(ctx, l, f) == "command line":
			return usagef("--%s is refused on the command line, which every process of this machine can read; %s", f.Name, ways)
		case l.file != nil && l.file.Exists(f.Name):
			return usagef("%s is refused in the configuration file, which is no place for secrets; %s", f.Name, ways)
		}
	}
	return nil
}

// helped takes the word help for --help.
func helped(args []string) []string {
	if len(args) > 0 && args[0] == "help" {
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// asUsage says after what kong has to say what would be right.
func asUsage(err error, model *kong.Node) error {
	var usage *UsageError
	if errors.As(err, &usage) {
		return usage
	}
	if name, _, ok := strings.Cut(strings.TrimPrefix(err.Error(), "--"), ":"); ok {
		if allowed := allowedFor(name, model); allowed != "" {
			return &UsageError{Detail: err.Error() + "; give " + allowed, Cause: err}
		}
	}
	return &UsageError{Detail: err.Error() + "; " + model.Name + " --help shows what there is", Cause: err}
}

// allowedFor are the values of a flag in words, by its kind; empty if there is no such flag or it takes any text.
func allowedFor(name string, node *kong.Node) string {
	for _, f := range node.Flags {
		if f.Name != name {
			continue
		}
		switch f.Target.Interface().(type) {
		case time.Duration:
			return "a time above zero, such as 10s"
		case slog.Level:
			return "debug, info, warn or error"
		case bool:
			return "true or false"
		case int:
			return "a whole number, such as 4"
		case float64:
			return "a number above 0 and up to 1, such as 0.1"
		case int64:
			return "a whole number of bytes, such as 268435456"
		}
	}
	for _, child := range node.Children {
		if allowed := allowedFor(name, child); allowed != "" {
			return allowed
		}
	}
	return ""
}

// What a node takes: a transaction is aborted 30 s after its begin; in a session of less than a second a heartbeat is late
// whenever the machine is busy.
const (
	mostThreads     = 1024
	longestInterval = 30 * time.Second
	leastSession    = time.Second
	mostSession     = 24 * time.Hour
)

// check finds what can be wrong about single settings and about their combination.
func (c *command) check() error {
	switch {
	case !c.dev && len(c.Brokers) == 0:
		return usagef("run needs a Kafka cluster; name it with --brokers host:port, or try dev, which brings its own")
	case c.dev && c.app.Demo == nil && (c.once || len(c.input) > 0):
		return usagef("this application counts no text; leave out --once and --input")
	case c.Threads < 1:
		return usagef("--threads %d is too few; give 1 to %d", c.Threads, mostThreads)
	case c.Threads > mostThreads:
		return usagef("--threads %d are too many; give 1 to %d", c.Threads, mostThreads)
	case c.StoreCacheBytes < 0:
		return usagef("--store-cache-bytes %d is below zero; give a number of bytes, or leave it out", c.StoreCacheBytes)
	case c.CommitInterval > longestInterval:
		return usagef("--commit-interval %s is too long for a transaction; give %s or less", c.CommitInterval, longestInterval)
	}
	for name, d := range map[string]time.Duration{"commit-interval": c.CommitInterval, "session-timeout": c.SessionTimeout,
		"start-timeout": c.StartTimeout, "shutdown-timeout": c.ShutdownTimeout} {
		if d <= 0 {
			return usagef("--%s %s is not above zero; give a time such as 10s", name, d)
		}
	}
	if c.SessionTimeout < leastSession || c.SessionTimeout > mostSession {
		return usagef("--session-timeout %s is out of bounds; give a time from %s to %s that the brokers take: 6s to 30m unless somebody has set them otherwise",
			c.SessionTimeout, leastSession, mostSession)
	}
	if err := c.clientSettings.check(); err != nil {
		return err
	}
	if err := c.traceSettings.check(); err != nil {
		return err
	}
	return c.checkNames()
}

func (c *command) run(ctx context.Context) error {
	halt := newHalt(ctx, c.proc.Signals, c.Leave, c.proc.now)
	defer halt.close()
	s := &session{command: c, halt: halt, world: c.proc.world}
	if s.world == nil {
		s.world = real{}
	}
	err := s.open()
	if err == nil {
		err = s.work()
	}
	return s.end(err)
}
