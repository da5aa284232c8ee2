package actors_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/actors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSystem() *actor.ActorSystem { return actors.NewSystem(slog.New(slog.DiscardHandler)) }

func ask(t *testing.T, system *actor.ActorSystem, pid *actor.PID, m any) (any, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return actors.Ask(ctx, system, pid, m)
}

// echo answers strings, blocks on a channel and panics with an error.
func echo(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case string:
		ctx.Respond(m)
	case chan struct{}:
		<-m
	case error:
		panic(m)
	case func():
		m()
	}
}

func TestAskEndsInEveryCase(t *testing.T) {
	system := newSystem()
	pid := system.Root.Spawn(actor.PropsFromFunc(echo))
	if v, err := ask(t, system, pid, "x"); v != "x" || err != nil {
		t.Error(v, err)
	}
	if err := actors.StopAndWait(t.Context(), system, pid); err != nil {
		t.Fatal(err)
	}
	for name, pid := range map[string]*actor.PID{"stopped": pid, "never was": actor.NewPID(system.Address(), "nobody"), "nil": nil} {
		if v, err := ask(t, system, pid, "x"); !errors.Is(err, actors.ErrStopped) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	silent := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	if _, err := actors.Ask(ctx, system, silent, "x"); !errors.Is(err, actors.ErrNoReply) || !errors.Is(err, why) {
		t.Error(err)
	}
}

// An answer that comes after its Ask has ended must not become the answer of a later one.
func TestLateAnswerFindsNobody(t *testing.T) {
	system := newSystem()
	late := make(chan *actor.PID, 1)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case string:
			late <- ctx.Sender()
		case int:
			system.Root.Send(<-late, "late")
			ctx.Respond("in time")
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := actors.Ask(ctx, system, pid, "x"); done <- err }()
	first := <-late
	cancel()
	if err := <-done; !errors.Is(err, actors.ErrNoReply) {
		t.Fatal(err)
	}
	late <- first
	if v, err := ask(t, system, pid, 1); v != "in time" || err != nil {
		t.Fatal(v, err)
	}
}

// Time-outs and answers that meet: each caller gets its own answer or ErrNoReply.
func TestAskRace(t *testing.T) {
	system := newSystem()
	pid := system.Root.Spawn(actor.PropsFromFunc(echo))
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%4)*10*time.Microsecond)
				want := fmt.Sprint(c, i)
				if v, err := actors.Ask(ctx, system, pid, want); err == nil && v != want {
					t.Errorf("got %v, want %v", v, want)
				} else if err != nil && !errors.Is(err, actors.ErrNoReply) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
}

func sorry(any) any { return "sorry" }

// The library drops both kinds of message without a word: queued when the actor stops, and queued behind a failure.
func TestHardenedAnswersWhatIsLeftBehind(t *testing.T) {
	for name, last := range map[string]any{"stop": nil, "panic, then stop": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			system := newSystem()
			props := actor.PropsFromFunc(echo, actors.Hardened(sorry)...)
			stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
			pid := system.Root.Spawn(props.Clone(actor.WithGuardian(stop)))
			gate := make(chan struct{})
			system.Root.Send(pid, gate)
			if last != nil {
				system.Root.Send(pid, last)
			}
			const n = 100
			answers := make(chan any, n)
			for range n {
				system.Root.RequestWithCustomSender(pid, "x", system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
					if s, ok := ctx.Message().(string); ok {
						answers <- s
					}
				})))
			}
			if last == nil {
				system.Root.Stop(pid)
			}
			close(gate)
			for range n {
				if a := <-answers; a != "sorry" {
					t.Fatal(a)
				}
			}
		})
	}
}

func TestHardenedAnswersTheMessageThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		m    any
		want string
	}{
		"panic":  {errors.New("broken"), "broken"},
		"Goexit": {func() { runtime.Goexit() }, "Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			system := newSystem()
			reasons := make(chan actors.Outcome, 1)
			clock := actors.NewManualClock(time.Unix(0, 0))
			supervisor := &actors.Supervisor{Intensity: actors.DefaultIntensity, Clock: clock, Publish: func(o actors.Outcome) { reasons <- o }}
			pid := system.Root.Spawn(actor.PropsFromFunc(echo, append(actors.Hardened(sorry), actor.WithGuardian(supervisor))...))
			if v, err := ask(t, system, pid, c.m); v != "sorry" || err != nil {
				t.Fatal(v, err)
			}
			if o := <-reasons; !strings.Contains(o.Cause.Error(), c.want) {
				t.Errorf("reason %v", o.Cause)
			}
			for { // the restart is scheduled after it is published
				clock.Advance(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				v, err := actors.Ask(ctx, system, pid, "again")
				cancel()
				if err == nil {
					if v != "again" {
						t.Error(v)
					}
					return
				}
			}
		})
	}
}

func TestGuardKeepsTheStack(t *testing.T) {
	system := newSystem()
	outcomes := make(chan actors.Outcome, 1)
	supervisor := &actors.Supervisor{Intensity: actors.DefaultIntensity, Publish: func(o actors.Outcome) { outcomes <- o },
		Decide: func(string, error, int) actors.Answer { return actors.ShutdownNode }}
	pid := system.Root.Spawn(actor.PropsFromFunc(echo, actor.WithReceiverMiddleware(actors.Guard), actor.WithGuardian(supervisor)))
	broken := errors.New("broken")
	system.Root.Send(pid, broken)
	o := <-outcomes
	var p *actors.Panic
	if !errors.As(o.Cause, &p) || !strings.Contains(string(p.Stack), "echo") || !errors.Is(o.Cause, broken) || !o.GaveUp {
		t.Fatalf("%+v", o)
	}
}

// lives is an actor that reports each incarnation's start and fails on demand.
type lives struct{ started chan<- struct{} }

func (l *lives) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		l.started <- struct{}{}
	case error:
		panic(m)
	}
}

// alarmed says when an alarm is set.
type alarmed struct {
	*actors.ManualClock
	set chan struct{}
}

func (a alarmed) AfterFunc(d time.Duration, f func()) {
	a.ManualClock.AfterFunc(d, f)
	a.set <- struct{}{}
}

// The outcome is published before the restart is sent, restarts wait for the back-off, and one failure too many stops
// the child.
func TestSupervisorPublishesThenRestartsThenGivesUp(t *testing.T) {
	system := newSystem()
	clock := alarmed{actors.NewManualClock(time.Unix(100, 0)), make(chan struct{}, 8)}
	started, outcomes := make(chan struct{}, 8), make(chan actors.Outcome, 8)
	supervisor := &actors.Supervisor{
		Intensity: actors.Intensity{Max: 2, Window: time.Hour, First: time.Second, Cap: time.Minute}, Clock: clock,
		Publish: func(o actors.Outcome) {
			select {
			case <-started:
				t.Error("restarted before it was published")
			default:
			}
			outcomes <- o
		},
	}
	pid, err := system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return &lives{started} }, actor.WithGuardian(supervisor)), "child")
	if err != nil {
		t.Fatal(err)
	}
	<-started
	for attempt := 1; attempt <= 2; attempt++ {
		system.Root.Send(pid, errors.New("broken"))
		o := <-outcomes
		back := o.Retry.Sub(clock.Now())
		if o.Child != "child" || o.Attempt != attempt || o.GaveUp || back < time.Second/2 || back > time.Duration(attempt)*time.Second {
			t.Fatalf("%+v, back-off %s", o, back)
		}
		<-clock.set // the alarm is set after the publication
		clock.Advance(back)
		<-started
	}
	system.Root.Send(pid, errors.New("broken"))
	if o := <-outcomes; !o.GaveUp || o.Attempt != 3 || !o.Retry.IsZero() {
		t.Fatalf("%+v", o)
	}
	if err := actors.StopAndWait(t.Context(), system, pid); err != nil {
		t.Fatal(err)
	}
}

// A user's handler that panics ends the node, and not the supervisor.
func TestDecideThatPanics(t *testing.T) {
	system := newSystem()
	outcomes := make(chan actors.Outcome, 1)
	first, second := errors.New("first"), errors.New("second")
	supervisor := &actors.Supervisor{Intensity: actors.DefaultIntensity, Publish: func(o actors.Outcome) { outcomes <- o },
		Decide: func(string, error, int) actors.Answer { panic(second) }}
	pid := system.Root.Spawn(actor.PropsFromFunc(echo, actor.WithGuardian(supervisor)))
	system.Root.Send(pid, first)
	if o := <-outcomes; !o.GaveUp || !errors.Is(o.Cause, first) || !errors.Is(o.Cause, second) {
		t.Fatalf("%+v", o)
	}
}

func TestStopAndWaitEndsWithItsContext(t *testing.T) {
	system := newSystem()
	pid := system.Root.Spawn(actor.PropsFromFunc(echo))
	in, gate := make(chan struct{}), make(chan struct{})
	system.Root.Send(pid, func() { close(in); <-gate })
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := actors.StopAndWait(ctx, system, pid); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(gate)
	for range 2 { // then it does end, and an actor that has ended has stopped
		if err := actors.StopAndWait(t.Context(), system, pid); err != nil {
			t.Error(err)
		}
	}
}

// The library's information lines stay away, with attributes too; warnings come through.
func TestSystemLogsWarningsOnly(t *testing.T) {
	var out strings.Builder
	system := actors.NewSystem(slog.New(slog.NewTextHandler(&out, nil)))
	l := system.Logger().With("k", "v").WithGroup("g")
	l.Info("quiet")
	l.Warn("loud")
	if s := out.String(); strings.Contains(s, "quiet") || !strings.Contains(s, "loud") || strings.Contains(s, "started") {
		t.Fatalf("%q", s)
	}
}

func BenchmarkAsk(b *testing.B) {
	system := newSystem()
	pid := system.Root.Spawn(actor.PropsFromFunc(echo))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := actors.Ask(context.Background(), system, pid, "x"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequestFuture(b *testing.B) {
	system := newSystem()
	pid := system.Root.Spawn(actor.PropsFromFunc(echo))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := system.Root.RequestFuture(pid, "x", time.Second).Result(); err != nil {
			b.Fatal(err)
		}
	}
}

// A million questions to one mailbox: those that find it full are answered at once, the others when their turn comes, and
// what waits is bounded.
func TestMillionQuestionsToOneMailbox(t *testing.T) {
	const questions = 1_000_000
	system := newSystem()
	var gauge actors.Gauge
	pid := system.Root.Spawn(actor.PropsFromFunc(echo, actors.Gauged(&gauge, sorry)...))
	gate := make(chan struct{})
	system.Root.Send(pid, gate)
	c := &counter{done: make(chan struct{}), want: questions}
	self, _ := system.ProcessRegistry.Add(c, "counter")
	deepest := 0
	for range questions {
		system.Root.RequestWithCustomSender(pid, "x", self)
		deepest = max(deepest, gauge.Depth())
	}
	if deepest < actors.MaxQueued/2 || deepest > actors.MaxQueued {
		t.Errorf("%d messages waited", deepest)
	}
	refused := c.sorry.Load()
	close(gate)
	<-c.done
	if refused < questions-actors.MaxQueued-1 || c.sorry.Load() != refused {
		t.Errorf("%d were refused, then %d", refused, c.sorry.Load())
	}
	if d := gauge.Depth(); d != 0 {
		t.Errorf("%d are left", d)
	}
}

// counter is a process that counts answers.
type counter struct {
	all, sorry atomic.Int64
	want       int64
	done       chan struct{}
}

func (c *counter) SendUserMessage(_ *actor.PID, message any) {
	if _, m, _ := actor.UnwrapEnvelope(message); m == "sorry" {
		c.sorry.Add(1)
	}
	if c.all.Add(1) == c.want {
		close(c.done)
	}
}
func (c *counter) SendSystemMessage(*actor.PID, any) {}
func (c *counter) Stop(*actor.PID)                   {}
