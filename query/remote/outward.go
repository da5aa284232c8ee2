package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// outward is the way of this process's actors to the gates of other nodes: any of them may send a question to a remote PID.
// The answer comes back on the same stream and belongs to its question, so the node's door never has to let an answer in.
//
// The mutex protects the lines, which senders make on their own goroutines.
type outward struct {
	l           *Listener
	bytes       atomic.Int64
	outstanding atomic.Int64
	ctx         context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup

	mu     sync.Mutex
	lines  map[string]*line
	closed bool
}

func newOutward(l *Listener) *outward {
	o := &outward{l: l, lines: map[string]*line{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// resolve is the actor system's way to PIDs with another address, until the listener closes: a later one of the same
// system comes after it.
func (o *outward) resolve(*actor.PID) (actor.Process, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &elsewhere{o}, !o.closed
}

// elsewhere is every actor of other processes.
type elsewhere struct{ o *outward }

var _ actor.Process = (*elsewhere)(nil)

// SendUserMessage implements actor.Process. What is not a question with a sender goes nowhere.
func (e *elsewhere) SendUserMessage(to *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	q, ok := m.(query.Question)
	if !ok || sender == nil {
		e.o.l.node.System.DeadLetter.SendUserMessage(to, message)
		return
	}
	e.o.ask(to, sender, q)
}

// SendSystemMessage implements actor.Process. Nobody can watch or stop an actor of another process.
func (e *elsewhere) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (e *elsewhere) Stop(*actor.PID) {}

func (o *outward) line(address string) *line {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	way := o.lines[address]
	if way == nil && len(o.lines) < MaxFollowed {
		way = &line{settings: o.l.settings, address: address, bytes: &o.bytes}
		o.lines[address] = way
	}
	return way
}

// ask answers the sender in every case, on a goroutine of the question's own; MaxPeerQuestions bounds them.
func (o *outward) ask(to, sender *actor.PID, q query.Question) {
	respond := func(r *querypb.Reply) { o.l.node.System.Root.Send(sender, r) }
	way := o.line(to.Address)
	defer o.outstanding.Add(-1)
	if o.outstanding.Add(1) > MaxPeerQuestions || way == nil {
		respond(query.ToReply(query.New(query.Overloaded, q.GetAbout().GetStore(), q.GetAbout().GetPartition())))
		return
	}
	o.outstanding.Add(1)
	o.wg.Go(func() {
		defer o.outstanding.Add(-1)
		ctx, cancel := context.WithTimeout(o.ctx, query.MaxWait)
		defer cancel()
		reply, err := o.answer(ctx, way, to.Id, q)
		if err != nil {
			f := failure(ctx, q.GetAbout(), err, query.StateStoreNotAvailable)
			if errors.Is(err, errUnreached) {
				f.Kind = query.StreamThreadNotRunning
			}
			reply = query.ToReply(f)
		}
		respond(reply)
	})
}

var errUnreached = errors.New("the node cannot be reached")

func (o *outward) answer(ctx context.Context, way *line, to string, q query.Question) (*querypb.Reply, error) {
	s, err := way.connected(ctx)
	if err != nil {
		return nil, errors.Join(errUnreached, err)
	}
	encoded, err := encode(ctx, q)
	if err != nil {
		return nil, &badQuestion{err}
	}
	return s.ask(ctx, to, string(proto.MessageName(q)), encoded)
}

func (o *outward) close() {
	o.mu.Lock()
	o.closed = true
	lines := o.lines
	o.mu.Unlock()
	o.cancel()
	o.wg.Wait()
	for _, w := range lines {
		w.close()
	}
}
