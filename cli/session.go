package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/topology"
)

// session is one run of a verb: what it has opened, and how it ends.
type session struct {
	*command
	halt  *halt
	world world
	say   *talk

	id       string
	brokers  []string
	access   kafka.Config // how the brokers are reached
	inputs   []input
	topology *topology.Topology
	cluster  cluster
	made     []string // topics outside of the application that were not there before
	node     node
	listener net.Listener
	guarded  guard
	// life ends when the session should: its cause is errInterrupted or why the node has ended.
	life context.Context
	// ran gets the result of the node's Run.
	ran chan error
	// until is when --shutdown-timeout ends, once the node is being stopped.
	until time.Time
	// gaveUp says that the node was not waited for, so that it may still write.
	gaveUp bool
	// closers are what end calls, last first.
	closers []func() error
}

func (s *session) closing(f func() error) { s.closers = append(s.closers, f) }

// open does everything up to the start of the node.
func (s *session) open() error {
	s.id, s.say = s.appID(), newTalk(s.proc, s.once)
	for _, step := range []func() error{s.openInputs, s.openTopology, s.openCluster, s.openTopics, s.openNode} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) openInputs() (err error) {
	switch {
	case s.app.Demo == nil || !s.dev:
	case len(s.input) > 0:
		s.inputs, err = findInputs(s.input)
	case s.once:
		s.inputs = []input{stdin(s.proc.In)}
	default:
		s.inputs = []input{builtin(s.app.Demo.Text)}
	}
	return err
}

func (s *session) openTopology() (err error) {
	s.topology, err = s.app.build(s.id)
	return err
}

// trying is after how long without a broker a person is told that it is being tried.
const trying = 2 * time.Second

func (s *session) openCluster() error {
	s.brokers = s.Brokers
	if len(s.brokers) == 0 {
		addrs, stop, err := s.world.Embed()
		if err != nil {
			return failf(err, "the embedded broker does not start; name a Kafka cluster with --brokers")
		}
		s.brokers = addrs
		s.closing(stop)
		s.say.ln("Embedded Kafka, in memory, on %s.", strings.Join(addrs, ", "))
	}
	var err error
	if s.access, err = s.config(s.brokers, s.logger()); err != nil {
		return err
	}
	return s.connect()
}

func (s *session) connect() error {
	ctx, cancel := context.WithTimeout(s.halt.stopping, s.StartTimeout)
	defer cancel()
	patient := s.proc.after(trying, func() {
		s.say.warn("No broker of %s answers yet; trying for %s (--start-timeout).", strings.Join(s.brokers, ","), s.StartTimeout)
	})
	c, err := s.world.Connect(ctx, s.access)
	patient.Stop()
	if s.halt.stopping.Err() != nil {
		return errors.Join(errInterrupted)
	}
	if err != nil {
		return s.unreached(err, s.brokers, s.StartTimeout)
	}
	s.cluster = c
	s.closing(c.Close)
	return nil
}

// openTopics makes the topics outside of the application that are missing. "run" leaves them to their owners.
func (s *session) openTopics() error {
	if !s.dev {
		return nil
	}
	n := s.app.Partitions
	if n == 0 {
		n = 4
	}
	topics := s.topology.ExternalTopics()
	if s.passing() {
		s.closing(s.deleteTopics)
	}
	var err error
	if s.made, err = s.cluster.Create(s.halt.stopping, topics, n); err != nil {
		if s.halt.stopping.Err() != nil {
			return errInterrupted
		}
		return failf(err, "the topics %s cannot be made on %s; try another application id with --app", strings.Join(topics, ", "), strings.Join(s.brokers, ","))
	}
	return nil
}

func (s *session) openNode() error {
	dir, passing, err := s.stateDir(s.id)
	if err != nil {
		return err
	}
	if passing {
		s.closing(func() error { return s.removeStores(dir) })
	}
	s.warnOpenTo(filepath.Join(dir, s.id))
	if s.guarded, err = s.guard(s.logger()); err != nil {
		return err
	}
	if s.listener, err = listen(s.Listen); err != nil {
		return err
	}
	s.closing(func() error { return ignoreClosed(s.listener.Close()) })
	endpoint := ""
	if s.Remote == "" { // others are told the address that is for them
		endpoint = s.address()
	}
	spans, err := s.openTraces()
	if err != nil {
		return err
	}
	s.node, err = s.world.Node(s.id, s.topology, nodeSettings{settings: s.settings, createTopics: s.dev || s.CreateTopics, brokers: s.brokers, stateDir: dir, endpoint: endpoint, logger: s.logger(), traces: spans})
	if taken := (*net.OpError)(nil); errors.As(err, &taken) && taken.Op == "listen" {
		return failf(taken.Err, "nothing can listen on %s; give --remote another address", s.Remote)
	}
	if err != nil {
		return &UsageError{Detail: err.Error(), Cause: err}
	}
	return nil
}

// openTraces is what the node traces with, nil if nothing is traced.
func (s *session) openTraces() (trace.TracerProvider, error) {
	t, err := s.traceSettings.open(s.id, s.address(), s.logger())
	if t == nil {
		return nil, err
	}
	s.closing(func() error {
		ctx, cancel := s.halt.abandoned, context.CancelFunc(func() {})
		if !s.until.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, s.until)
		}
		defer cancel()
		t.Close(ctx)
		return nil
	})
	return t, nil
}

// address is the one by which callers reach --listen.
func (s *session) address() string { return cmp.Or(s.ListenAdvertised, s.listener.Addr().String()) }

// removeStores deletes a passing state directory, but never under stores that are open: their engine would report every
// file that it misses, and make new ones meanwhile.
func (s *session) removeStores(dir string) error {
	if s.gaveUp {
		s.say.warn("The stores were not closed, so %s stays; it may be deleted.", dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return failf(err, "the temporary directory of the stores stays; delete it")
	}
	return nil
}

// warnOpenTo tells of an application's state directory that others on this machine may read. It stays as it is: whoever
// gave it that mode may have had a reason.
func (s *session) warnOpenTo(dir string) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() && info.Mode().Perm()&0o077 != 0 {
		s.say.warn("State directory %s has mode %04o, so others on this machine may read the stores; chmod 700 makes it private.", dir, info.Mode().Perm())
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *session) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(s.say.log, o))
	}
	return slog.New(slog.NewTextHandler(s.say.log, o))
}

// start runs the node, tells of its state changes and answers on the listener.
func (s *session) start() {
	life, over := context.WithCancelCause(s.halt.stopping)
	s.life, s.ran = life, make(chan error, 1)
	go func() {
		// Shutdown ends it. A cancelled context would too, but could not say whether to leave the group.
		err := s.explained(s.node.Run(context.WithoutCancel(life)))
		s.ran <- err
		if err == nil {
			err = errInterrupted
		}
		over(err)
	}()
	watching, stop := context.WithCancel(context.WithoutCancel(life))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for c := range s.node.Watch(watching) {
			s.say.change(s.id, c)
		}
	}()
	s.closing(func() error { stop(); <-watched; return nil })
	served := s.app.handler(s.node)
	if s.Pprof {
		served = profiles(served)
	}
	stopServer := serve(s.listener, s.guarded, served)
	s.closing(func() error { stopServer(s.halt.abandoned); return nil })
}

// explained names the setting that brokers do not take.
func (s *session) explained(err error) error {
	if refused := (*broker.Error)(nil); errors.As(err, &refused) && refused.Code == invalidSessionTimeout {
		return failf(err, "the brokers do not take --session-timeout %s; give one that they take, or have them take this one", s.SessionTimeout)
	}
	return err
}

// invalidSessionTimeout is Kafka's error code for a session timeout outside of the brokers' bounds.
const invalidSessionTimeout = 26

// end stops what open and start began, and turns the reason for the end into the session's result.
func (s *session) end(err error) error {
	var stopped error
	if s.ran != nil {
		stopped = s.stopNode()
	}
	for _, f := range slices.Backward(s.closers) {
		if e := f(); e != nil {
			stopped = errors.Join(stopped, e)
		}
	}
	switch {
	case err == nil || errors.Is(err, errInterrupted) && !s.once:
		return stopped
	case errors.Is(err, errInterrupted) && stopped == nil:
		return s.cutShort()
	case errors.Is(err, errInterrupted):
		return stopped
	}
	return err
}

func (s *session) cutShort() error {
	if s.App != "" && len(s.Brokers) > 0 {
		return failf(nil, "interrupted before everything was counted; the same command goes on where it was")
	}
	return failf(nil, "interrupted before everything was counted, so nothing is printed")
}

// stopNode ends the node and says what was abandoned if that was given up.
func (s *session) stopNode() error {
	select {
	case err := <-s.ran:
		return err // it has ended by itself
	default:
	}
	s.until = time.Now().Add(s.ShutdownTimeout)
	ctx, cancel := context.WithDeadline(s.halt.abandoned, s.until)
	defer cancel()
	leave := s.halt.stopping.Err() == nil || s.halt.leave || s.passing()
	s.say.ending(leave)
	err := s.node.Shutdown(ctx, leave)
	if s.gaveUp = ctx.Err() != nil; s.gaveUp {
		return failf(nil, "gave up waiting; abandoned: %s; what was not committed will be processed again", s.unfinished())
	}
	if err == nil {
		err = <-s.ran
	}
	if err == nil {
		s.say.ln("Stopped: everything is committed and closed.")
	}
	return err
}

// unfinished names what has not stopped.
func (s *session) unfinished() string {
	var left []string
	for _, t := range s.node.Threads() {
		if t.State != lifecycle.ThreadNotRunning {
			left = append(left, fmt.Sprintf("%s in state %s", t.Name, t.State))
		}
	}
	for _, id := range s.node.Owned() {
		left = append(left, "task "+id.String())
	}
	if len(left) == 0 {
		return "the closing of the node"
	}
	return strings.Join(left, ", ")
}
