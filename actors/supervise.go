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

// Outcome is what a supervisor has decided about one failure.
type Outcome struct {
	Child   string
	Cause   error
	Attempt int
	Answer  Answer
	// GaveUp says that there is no restart; else Retry is when it is.
	GaveUp bool
	Retry  time.Time
	// Ended says that the child was to end anyway (End). Without GaveUp it was waiting for a decision or for its restart,
	// and is stopped as it was asked to; with it, it has failed on its way down.
	Ended bool
}

// DefaultPatience is how long a Decide may take.
const DefaultPatience = 10 * time.Second

// Supervisor is the one supervision strategy.
//
// Decide may be a user's code, which may panic, block, or wait for the end of the very actor that has failed. So it has a
// goroutine of its own, a panic ends in ShutdownNode, a question that is not answered within Patience is answered with
// ReplaceThread, and End ends the wait at once. Whichever comes first counts.
//
// The mutex protects the fields below it. Failures are handled on the supervisor actor's goroutine, answers and the end
// of a back-off come on others, and End on any. An actor in between would have to be asked by callers that stop a node
// whose actors are stuck. Publish and the consequence happen under it, so that they are in the order of the decisions.
type Supervisor struct {
	Intensity Intensity
	// Decide answers a failure; nil means ReplaceThread.
	Decide func(child string, cause error, attempt int) Answer
	// Key gives the name under which a child's failures are counted, if that is not its own: who replaces it may have
	// another one. Nil: its own. End and Forget take either.
	Key func(child string) string
	// Patience bounds it; 0 is DefaultPatience.
	Patience time.Duration
	// Publish is called before the consequence is sent. It must not call the supervisor.
	Publish func(Outcome)
	// Clock is the machine's if nil.
	Clock Clock

	mu        sync.Mutex
	histories map[string]*History
	pending   map[string]*failure
	ended     map[string]bool
}

// failure is one whose consequence was not sent yet: it is being decided, or the child waits for its restart.
type failure struct {
	supervisor actor.Supervisor
	child      *actor.PID
	cause      error
	attempt    int
	delay      time.Duration
	over       bool
	decided    bool
}

var _ actor.SupervisorStrategy = (*Supervisor)(nil)

// HandleFailure implements actor.SupervisorStrategy. It never blocks, and never escalates: under a root actor that would
// end the process.
func (s *Supervisor) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	f := &failure{supervisor: supervisor, child: child, cause: asError(reason)}
	if !s.began(f) {
		return
	}
	if s.Decide == nil {
		s.conclude(f, ReplaceThread, f.cause)
		return
	}
	id, why, attempt := child.GetId(), f.cause, f.attempt // what is concluded meanwhile changes f
	go func() {
		answer, cause := s.ask(id, why, attempt)
		s.conclude(f, answer, cause)
	}()
	patience := s.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	s.clock().AfterFunc(patience, func() {
		s.conclude(f, ReplaceThread, errors.Join(f.cause, &UndecidedError{patience}))
	})
}

// UndecidedError is joined to a cause whose Decide did not answer in time; the failure was answered with ReplaceThread.
type UndecidedError struct{ After time.Duration }

// Error says how long it took.
func (e *UndecidedError) Error() string {
	return fmt.Sprintf("the failure handler has not answered within %s, so the answer is ReplaceThread", e.After)
}

func (s *Supervisor) clock() Clock {
	if s.Clock == nil {
		return realClock{}
	}
	return s.Clock
}

// began counts the failure. A child that was to end anyway is given up at once, unasked.
func (s *Supervisor) began(f *failure) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	name := s.key(f.child.GetId())
	h := s.histories[name]
	if h == nil {
		h = &History{}
		s.histories[name] = h
	}
	f.attempt, f.delay, f.over = h.Fail(s.clock().Now(), s.Intensity, rand.Float64())
	if s.ended[name] {
		s.giveUp(f, ShutdownNode, true)
		return false
	}
	s.pending[name] = f
	return true
}

func (s *Supervisor) key(child string) string {
	if s.Key == nil {
		return child
	}
	return s.Key(child)
}

func (s *Supervisor) init() {
	if s.histories == nil {
		s.histories, s.pending, s.ended = map[string]*History{}, map[string]*failure{}, map[string]bool{}
	}
}

// conclude acts on an answer, unless there was one before, or End.
func (s *Supervisor) conclude(f *failure, answer Answer, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.key(f.child.GetId())
	if s.pending[name] != f || f.decided {
		return
	}
	f.decided, f.cause = true, cause
	if answer == ReplaceThread && f.over {
		answer = ShutdownNode
	}
	if answer != ReplaceThread {
		delete(s.pending, name)
		s.giveUp(f, answer, false)
		return
	}
	s.publish(Outcome{Child: name, Cause: cause, Attempt: f.attempt, Retry: s.clock().Now().Add(f.delay)})
	s.clock().AfterFunc(f.delay, func() { s.restart(f) })
}

func (s *Supervisor) giveUp(f *failure, answer Answer, ended bool) {
	s.publish(Outcome{Child: f.child.GetId(), Cause: f.cause, Attempt: f.attempt, Answer: answer, GaveUp: true, Ended: ended})
	f.supervisor.StopChildren(f.child)
}

func (s *Supervisor) restart(f *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := s.key(f.child.GetId()); s.pending[name] == f {
		delete(s.pending, name)
		f.supervisor.RestartChildren(f.child)
	}
}

// End says that children are to end: one that waits for a decision or for its restart is stopped now (Outcome.Ended), and
// one that fails later is given up.
func (s *Supervisor) End(children ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	for _, child := range children {
		name := s.key(child)
		s.ended[name] = true
		if f := s.pending[name]; f != nil {
			delete(s.pending, name)
			s.publish(Outcome{Child: name, Cause: f.cause, Attempt: f.attempt, Ended: true})
			f.supervisor.StopChildren(f.child)
		}
	}
}

// Forget drops what is known of a child that is gone: another may have its name.
func (s *Supervisor) Forget(child string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	child = s.key(child)
	delete(s.histories, child)
	delete(s.pending, child)
	delete(s.ended, child)
}

// ask asks Decide. If it panics, or gives an answer that there is not, the node ends, with both causes.
func (s *Supervisor) ask(child string, cause error, attempt int) (answer Answer, causes error) {
	defer func() {
		if v := recover(); v != nil {
			answer, causes = ShutdownNode, errors.Join(cause, &Panic{Value: v, Stack: debug.Stack()})
		}
	}()
	answer = s.Decide(child, cause, attempt)
	if answer > ShutdownApplication {
		return ShutdownNode, errors.Join(cause, fmt.Errorf("the failure handler gave the answer %s, which there is not", answer))
	}
	return answer, cause
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
