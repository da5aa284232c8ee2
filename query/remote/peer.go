package remote

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// peer is one stream of questions, and the process that the gates answer to. A question gets a RequestId of the peer's own,
// under which exactly one answer is taken.
//
// The mutex protects the questions that are waiting: answers come on the goroutines of the gates and stores.
type peer struct {
	l      *Listener
	stream wire.Remoting_ReceiveServer
	pid    *actor.PID
	link   *link
	// address is where a peer that listens wants its answers; empty for one that takes them from the stream.
	address string
	refused int
	// unwritten counts the questions that are waiting, and the answers that were not written yet.
	unwritten atomic.Int64

	mu      sync.Mutex
	waiting map[uint32]asked
	last    uint32
	closed  bool
}

// asked is where an answer goes, and what the question costs until then.
type asked struct {
	sender *actor.PID
	cost   int64
}

var _ actor.Process = (*peer)(nil)

// overhead is what a question and an answer cost beyond their bytes.
const overhead = 256

func newPeer(l *Listener, s wire.Remoting_ReceiveServer) *peer {
	p := &peer{l: l, stream: s, link: newLink(&l.bytes), waiting: map[uint32]asked{}}
	id := "millrace/remote/" + strconv.FormatUint(l.last.Add(1), 10)
	p.pid = &actor.PID{Address: l.node.System.Address(), Id: id}
	l.node.System.ProcessRegistry.Add(p, id)
	return p
}

// serve ends with the stream: when the peer leaves, breaks the rules or does not read, or the listener closes.
func (p *peer) serve() error {
	defer p.close()
	ctx, cancel := context.WithCancelCause(p.stream.Context())
	defer cancel(nil)
	hello := make(chan error, 1)
	p.l.wg.Go(func() { cancel(p.read(hello)) }) // its Recv ends when this function has returned
	select {
	case err := <-hello:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.l.ending:
		return status.Error(codes.Unavailable, "the node stops")
	case <-time.After(HelloTime):
		return status.Error(codes.DeadlineExceeded, "the peer has not introduced itself")
	}
	send := p.stream.Send
	if p.address != "" {
		back, leave, err := p.connectBack(ctx)
		if err != nil {
			return status.Error(codes.Unavailable, "the node cannot reach the address that answers should go to")
		}
		defer leave()
		send = back
	}
	p.l.wg.Go(func() {
		select {
		case <-p.l.ending:
			cancel(status.Error(codes.Unavailable, "the node stops"))
		case <-ctx.Done():
		}
	})
	written := make(chan error, 1)
	p.l.wg.Go(func() {
		written <- p.link.run(ctx, send, func() { cancel(status.Error(codes.Aborted, "the peer does not read")) }, p.wrote)
	})
	select {
	case err := <-written:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *peer) wrote(n int) { p.unwritten.Add(int64(-n)) }

// close forgets the peer. Its bytes are given back at once, even if a writer that is stuck still holds some.
func (p *peer) close() {
	p.l.node.System.ProcessRegistry.Remove(p.pid)
	p.mu.Lock()
	p.closed = true
	clear(p.waiting)
	p.mu.Unlock()
	p.link.close()
}

var errRefusals = status.Error(codes.PermissionDenied, "too much of what was sent is not admitted")

// read takes messages until the stream ends. hello gets the outcome of the introduction.
func (p *peer) read(hello chan<- error) error {
	introduced := false
	for {
		m, err := p.stream.Recv()
		if err != nil {
			return err
		}
		switch t := m.MessageType.(type) {
		case *wire.RemoteMessage_ConnectRequest:
			if introduced {
				return p.refusePeer("it has introduced itself already")
			}
			if err := p.introduce(t.ConnectRequest); err != nil {
				hello <- err
				return err
			}
			introduced = true
			hello <- nil
		case *wire.RemoteMessage_MessageBatch:
			if !introduced {
				return p.refusePeer("it has not introduced itself")
			}
			if err := p.batch(t.MessageBatch); err != nil {
				return err
			}
		case *wire.RemoteMessage_DisconnectRequest:
			return nil
		default:
			return p.refusePeer("it speaks another protocol")
		}
	}
}

func (p *peer) refusePeer(why string) error {
	p.l.refusals.peers.Add(1)
	return status.Error(codes.PermissionDenied, why)
}

// introduce takes down where answers go. Who need not prove anything can make the node connect to this machine only.
func (p *peer) introduce(c *wire.ConnectRequest) error {
	switch t := c.GetConnectionType().(type) {
	case *wire.ConnectRequest_ClientConnection:
	case *wire.ConnectRequest_ServerConnection:
		p.address = t.ServerConnection.GetAddress()
		host, port, err := net.SplitHostPort(p.address)
		if err != nil || host == "" || port == "" {
			return p.refusePeer("its address is not host:port: a caller by PID must itself listen")
		}
		if !p.l.settings.guarded() && !loopback(host) {
			return p.refusePeer("its address is on another machine, and it has not proved who it is")
		}
	default:
		return p.refusePeer("it does not say how it takes answers")
	}
	return p.stream.Send(&wire.RemoteMessage{MessageType: &wire.RemoteMessage_ConnectResponse{
		ConnectResponse: &wire.ConnectResponse{MemberId: p.l.node.App}}})
}

// batch takes the questions of one message. It fails if the peer cannot be understood.
func (p *peer) batch(b *wire.MessageBatch) error {
	for _, e := range b.GetEnvelopes() {
		if !whole(b, e) {
			p.l.refusals.malformed.Add(1)
			return status.Error(codes.InvalidArgument, "an envelope names something that is not in its batch")
		}
		to := b.Targets[e.Target]
		var sender *actor.PID
		if e.Sender > 0 {
			sender = &actor.PID{Address: b.Senders[e.Sender-1].GetAddress(), Id: b.Senders[e.Sender-1].GetId(), RequestId: e.SenderRequestId}
		}
		counter, why := p.one(to.GetId(), b.TypeNames[e.TypeId], sender, e.MessageData)
		if counter == nil {
			continue
		}
		counter.Add(1)
		if counter != &p.l.refusals.overloaded {
			if p.refused++; p.refused > MaxRefusals {
				return errRefusals
			}
		}
		if why != nil && sender != nil {
			p.answer(sender, query.ToReply(why), 0)
		}
	}
	return nil
}

func whole(b *wire.MessageBatch, e *wire.MessageEnvelope) bool {
	within := func(i int32, n int) bool { return i >= 0 && int(i) < n }
	return e != nil && e.SerializerId == 0 && within(e.Target, len(b.Targets)) && within(e.TypeId, len(b.TypeNames)) &&
		(e.Sender == 0 || within(e.Sender-1, len(b.Senders)))
}

// one admits one message and asks. Otherwise it returns the counter of the refusal, and what the sender is told.
func (p *peer) one(to, typeName string, sender *actor.PID, data []byte) (*atomic.Int64, *query.Failure) {
	r := &p.l.refusals
	if sender != nil && sender.Address != p.address {
		return &r.foreignSender, nil
	}
	invalid := func(detail string) *query.Failure { return query.Invalid("", query.NoPartition, detail) }
	t, ok := questions[typeName]
	if !ok {
		return r.typeRefusal(typeName), invalid("only questions of querypb are taken from other processes")
	}
	at, ok := parseTarget(p.l.node.App, to)
	if !ok {
		return &r.notAGate, invalid("only the gates of store partitions answer other processes: use the PID that StorePID gives")
	}
	if sender == nil {
		return &r.noSender, nil
	}
	cost := int64(len(data)) + overhead
	if p.unwritten.Load() >= MaxPeerQuestions || !p.link.reserve(cost) {
		return &r.overloaded, query.New(query.Overloaded, at.store, at.partition)
	}
	q, err := decode(t, data)
	if err != nil {
		p.link.free(cost)
		return &r.malformed, invalid("the message cannot be decoded")
	}
	p.unwritten.Add(1)
	p.ask(to, at, q, p.remember(asked{sender, cost}))
	return nil, nil
}

func (p *peer) remember(a asked) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.last++; p.last == 0 || p.waiting[p.last].sender != nil; p.last++ {
	}
	p.waiting[p.last] = a
	return p.last
}

// ask sends the question to the gate. One that goes to a gate that does not exist is answered by the node, which makes none:
// names and numbers that callers make up cost no memory.
func (p *peer) ask(id string, at target, q query.Question, slot uint32) {
	self := &actor.PID{Address: p.pid.Address, Id: p.pid.Id, RequestId: slot}
	if gate, ok := p.l.node.System.ProcessRegistry.GetLocal(id); ok {
		gate.SendUserMessage(&actor.PID{Address: p.pid.Address, Id: id}, &actor.MessageEnvelope{Message: q, Sender: self})
		return
	}
	p.l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.stream.Context(), query.MaxWait)
		defer cancel()
		reply, err := p.l.node.Client.Ask(ctx, at.addressed(q))
		f := (*query.Failure)(nil)
		if errors.As(err, &f) {
			reply = query.ToReply(f)
		}
		p.SendUserMessage(self, reply)
	})
}

// SendUserMessage implements actor.Process: the first message for a RequestId is its answer.
func (p *peer) SendUserMessage(to *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	p.mu.Lock()
	a, ok := p.waiting[to.GetRequestId()]
	delete(p.waiting, to.GetRequestId())
	p.mu.Unlock()
	if !ok {
		return
	}
	reply, ok := m.(*querypb.Reply)
	if !ok || reply == nil {
		reply = query.ToReply(query.New(query.StoreFailure, "", query.NoPartition))
	}
	p.answer(a.sender, reply, a.cost)
}

// answer queues an answer. One that does not fit is told as such, which always fits, because there are at most
// MaxPeerQuestions.
func (p *peer) answer(to *actor.PID, reply *querypb.Reply, spent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.link.free(spent)
	size := int64(proto.Size(reply)) + overhead
	if spent == 0 && p.unwritten.Add(1) > 2*MaxPeerQuestions {
		p.unwritten.Add(-1) // it sends on and on and reads nothing
		return
	}
	if !p.link.reserve(size) {
		p.l.refusals.overloaded.Add(1)
		reply = query.ToReply(query.New(query.Overloaded, reply.GetStore(), reply.GetPartition()))
		size = 0
	}
	p.link.push(outgoing{target: to, sender: nil, message: reply, typeName: replyName, size: size, cost: size})
}

var replyName = string(proto.MessageName(&querypb.Reply{}))

// SendSystemMessage implements actor.Process.
func (p *peer) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (p *peer) Stop(*actor.PID) {}
