package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Answer is what happens after a failure that no other policy took.
type Answer uint8

const (
	// ReplaceThread restarts the failed actor after a back-off, until the intensity limit is reached; then the node ends
	// as with ShutdownNode.
	ReplaceThread Answer = iota
	// ShutdownNode ends this node; Run returns the cause.
	ShutdownNode
	// ShutdownApplication ends every node of the application. Until nodes can tell each other, it ends this one.
	ShutdownApplication
)

func (a Answer) String() string {
	return [...]string{"ReplaceThread", "ShutdownNode", "ShutdownApplication"}[a]
}

// Intensity bounds restarts: at most Max within Window, each after a back-off that doubles from First to Cap.
type Intensity struct {
	Max        int
	Window     time.Duration
	First, Cap time.Duration
}

// DefaultIntensity allows 10 restarts in 2 minutes, 100 ms to 10 s apart.
var DefaultIntensity = Intensity{Max: 10, Window: 2 * time.Minute, First: 100 * time.Millisecond, Cap: 10 * time.Second}

// History is the failures of one actor that still count.
type History struct{ at []time.Time }

// Fail records a failure. It is a pure step but for the jitter, which the caller gives as a number from 0 to 1: attempt
// counts the failures within the window, this one included; delay is the back-off; over says that it was one too many.
func (h *History) Fail(now time.Time, i Intensity, jitter float64) (attempt int, delay time.Duration, over bool) {
	kept := h.at[:0]
	for _, t := range h.at {
		if now.Sub(t) < i.Window {
			kept = append(kept, t)
		}
	}
	h.at = append(kept, now)
	attempt = len(h.at)
	delay = i.Cap
	if shift := attempt - 1; shift < 30 && i.First<<shift < i.Cap {
		delay = i.First << shift
	}
	delay -= time.Duration(jitter * float64(delay) / 2)
	return attempt, delay, attempt > i.Max
}

// Outcome is what a supervisor has decided about one failure.
type Outcome struct {
	Child   string
	Cause   error
	Attempt int
	// GaveUp says that there is no restart; else Retry is when it is.
	GaveUp bool
	Retry  time.Time
}

// Supervisor is the one supervision strategy.
//
// The mutex protects the histories: failures of different children are handled on the supervisor actor's goroutine, but
// its own restart would run on another one.
type Supervisor struct {
	Intensity Intensity
	// Decide answers a failure; nil means ReplaceThread.
	Decide func(child string, cause error, attempt int) Answer
	// Publish is called before the consequence is sent.
	Publish func(Outcome)
	// Clock is the machine's if nil.
	Clock Clock

	mu        sync.Mutex
	histories map[string]*History
}

var _ actor.SupervisorStrategy = (*Supervisor)(nil)

// HandleFailure implements actor.SupervisorStrategy. It never escalates: under a root actor that would end the process.
func (s *Supervisor) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	clock := s.Clock
	if clock == nil {
		clock = realClock{}
	}
	name, now, cause := child.GetId(), clock.Now(), asError(reason)
	attempt, delay, over := s.fail(name, now)
	answer, cause := s.answer(name, cause, attempt)
	if over || answer != ReplaceThread {
		s.publish(Outcome{Child: name, Cause: cause, Attempt: attempt, GaveUp: true})
		supervisor.StopChildren(child)
		return
	}
	s.publish(Outcome{Child: name, Cause: cause, Attempt: attempt, Retry: now.Add(delay)})
	clock.AfterFunc(delay, func() { supervisor.RestartChildren(child) })
}

func (s *Supervisor) fail(name string, now time.Time) (attempt int, delay time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.histories == nil {
		s.histories = map[string]*History{}
	}
	h := s.histories[name]
	if h == nil {
		h = &History{}
		s.histories[name] = h
	}
	return h.Fail(now, s.Intensity, rand.Float64())
}

// answer asks Decide, which may be a user's code: if it panics the node ends, with both causes, instead of the supervisor.
func (s *Supervisor) answer(name string, cause error, attempt int) (answer Answer, causes error) {
	if s.Decide == nil {
		return ReplaceThread, cause
	}
	defer func() {
		if v := recover(); v != nil {
			answer, causes = ShutdownNode, errors.Join(cause, &Panic{Value: v, Stack: debug.Stack()})
		}
	}()
	return s.Decide(name, cause, attempt), cause
}

func (s *Supervisor) publish(o Outcome) {
	if s.Publish != nil {
		s.Publish(o)
	}
}

func asError(reason any) error {
	if err, ok := reason.(error); ok {
		return err
	}
	return &Panic{Value: fmt.Sprint(reason)}
}
