package actors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
)

func TestHistoryBacksOffAndGivesUp(t *testing.T) {
	i := actors.Intensity{Max: 3, Window: time.Minute, First: 100 * time.Millisecond, Cap: 300 * time.Millisecond}
	now := time.Unix(0, 0)
	var h actors.History
	for n, want := range []struct {
		after time.Duration
		delay time.Duration
		over  bool
	}{
		{0, 100 * time.Millisecond, false}, {time.Second, 200 * time.Millisecond, false}, {time.Second, 300 * time.Millisecond, false},
		{time.Second, 300 * time.Millisecond, true},
	} {
		now = now.Add(want.after)
		attempt, delay, over := h.Fail(now, i, 0)
		if attempt != n+1 || delay != want.delay || over != want.over {
			t.Fatalf("failure %d: attempt %d, delay %s, over %v", n+1, attempt, delay, over)
		}
	}
	if attempt, _, over := h.Fail(now.Add(2*time.Minute), i, 0); attempt != 1 || over {
		t.Fatal("failures outside the window count", attempt, over)
	}
	if _, delay, _ := new(actors.History).Fail(now, i, 1); delay != 50*time.Millisecond {
		t.Fatal("full jitter halves the delay:", delay)
	}
}

// fake is what a strategy is handed: it notes what is sent.
type fake struct {
	actor.Supervisor
	sent chan string
}

func (f *fake) StopChildren(pids ...*actor.PID)    { f.sent <- "stop " + pids[0].Id }
func (f *fake) RestartChildren(pids ...*actor.PID) { f.sent <- "restart " + pids[0].Id }

var errAny = errors.New("broken")

// rig is a supervisor with everything noted.
func rig(decide func(string, error, int) actors.Answer) (*actors.Supervisor, *fake, chan actors.Outcome, *actors.ManualClock) {
	clock := actors.NewManualClock(time.Unix(0, 0))
	outcomes := make(chan actors.Outcome, 8)
	s := &actors.Supervisor{Intensity: actors.DefaultIntensity, Decide: decide, Clock: clock, Publish: func(o actors.Outcome) { outcomes <- o }}
	return s, &fake{sent: make(chan string, 8)}, outcomes, clock
}

func failFor(s *actors.Supervisor, f *fake, name string) {
	s.HandleFailure(nil, f, &actor.PID{Id: name}, nil, errAny, nil)
}

// End ends a back-off at once, and that is no failure; who fails after it is given up.
func TestEndEndsABackOff(t *testing.T) {
	s, f, outcomes, clock := rig(nil)
	failFor(s, f, "a")
	if o := <-outcomes; o.GaveUp || o.Retry.IsZero() {
		t.Fatalf("%+v", o)
	}
	s.End("a", "b")
	if o, sent := <-outcomes, <-f.sent; !o.Ended || o.GaveUp || sent != "stop a" || o.Cause != errAny {
		t.Fatalf("%+v %s", o, sent)
	}
	clock.Advance(time.Hour)
	failFor(s, f, "b")
	if o, sent := <-outcomes, <-f.sent; !o.Ended || !o.GaveUp || sent != "stop b" {
		t.Fatalf("%+v %s", o, sent)
	}
	s.Forget("b")
	failFor(s, f, "b")
	if o := <-outcomes; o.Ended || o.GaveUp || o.Attempt != 1 {
		t.Fatalf("%+v", o)
	}
	clock.Advance(time.Hour)
	if sent := <-f.sent; sent != "restart b" {
		t.Fatal(sent)
	}
}

// A Decide that blocks holds up nobody: the next failure is handled, patience ends the question, and a late answer is void.
func TestDecideThatBlocks(t *testing.T) {
	gate := make(chan struct{})
	s, f, outcomes, clock := rig(func(child string, _ error, _ int) actors.Answer {
		if child == "blocks" {
			<-gate
		}
		return actors.ShutdownApplication
	})
	failFor(s, f, "blocks")
	failFor(s, f, "other")
	if o, sent := <-outcomes, <-f.sent; o.Child != "other" || !o.GaveUp || o.Answer != actors.ShutdownApplication || sent != "stop other" {
		t.Fatalf("%+v %s", o, sent)
	}
	clock.Advance(actors.DefaultPatience)
	var undecided *actors.UndecidedError
	if o := <-outcomes; o.Child != "blocks" || o.GaveUp || !errors.As(o.Cause, &undecided) || !errors.Is(o.Cause, errAny) {
		t.Fatalf("%+v", o)
	}
	close(gate)
	clock.Advance(time.Minute)
	if sent := <-f.sent; sent != "restart blocks" {
		t.Fatal(sent)
	}
	if len(outcomes) > 0 {
		t.Fatalf("%+v", <-outcomes)
	}
}

func TestAnswerThatThereIsNot(t *testing.T) {
	s, f, outcomes, _ := rig(func(string, error, int) actors.Answer { return 9 })
	failFor(s, f, "a")
	if o := <-outcomes; !o.GaveUp || !errors.Is(o.Cause, errAny) || !strings.Contains(o.Cause.Error(), "Answer(9)") {
		t.Fatalf("%+v", o)
	}
}
