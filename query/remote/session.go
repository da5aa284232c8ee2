package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// session is a stream of a client's questions, while it lasts.
//
// The mutex protects the fields below it: callers ask from any goroutine, and the reader answers.
type session struct {
	stream *stream
	link   *link
	ended  chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint32]*waiter
	last    uint32
	over    bool
}

// waiter is one question. It is used again; its channel is empty whenever it is not in session.waiting and nobody is about
// to receive from it. A nil reply says that the session is over.
type waiter struct{ reply chan *querypb.Reply }

var waiters = sync.Pool{New: func() any { return &waiter{make(chan *querypb.Reply, 1)} }}

// answersTo is what questions of a client say that they are to be answered to; its RequestId tells them apart.
const answersTo = "ask"

func newSession(s *stream, all *atomic.Int64) *session {
	out := &session{stream: s, link: newLink(all), ended: make(chan struct{}), waiting: map[uint32]*waiter{}}
	ctx, cancel := context.WithCancel(s.Context())
	out.wg.Go(func() {
		_ = out.link.run(ctx, s.Send, s.cancel, func(int) {})
		s.cancel()
	})
	out.wg.Go(func() {
		out.read()
		cancel()
		out.end()
	})
	return out
}

// read takes answers until the stream ends. Whatever is no answer to a question that is waiting is dropped.
func (s *session) read() {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return
		}
		b := m.GetMessageBatch()
		for _, e := range b.GetEnvelopes() {
			if !whole(b, e) || b.TypeNames[e.TypeId] != replyName {
				continue
			}
			reply := &querypb.Reply{}
			if proto.Unmarshal(e.MessageData, reply) != nil {
				reply = query.ToReply(query.New(query.StoreFailure, "", query.NoPartition))
			}
			if w := s.forget(e.TargetRequestId); w != nil {
				w.reply <- reply
			}
		}
	}
}

// end fails what is outstanding.
func (s *session) end() {
	s.stream.close()
	s.link.close()
	s.mu.Lock()
	s.over = true
	lost := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	close(s.ended)
	for _, w := range lost {
		w.reply <- nil
	}
}

func (s *session) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// expect gives a question its RequestId; 0 means that the session is over.
func (s *session) expect(w *waiter) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0
	}
	for s.last++; s.last == 0 || s.waiting[s.last] != nil; s.last++ {
	}
	s.waiting[s.last] = w
	return s.last
}

func (s *session) forget(id uint32) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[id]
	delete(s.waiting, id)
	return w
}

// What a session says instead of an answer.
var (
	errLost = errors.New("the connection to the node was lost")
	errFull = errors.New("too much is on its way to the node")
)

// ask sends an encoded question to an actor of the other process and waits for the answer until ctx ends.
func (s *session) ask(ctx context.Context, to, typeName string, encoded []byte) (*querypb.Reply, error) {
	cost := int64(len(encoded)) + overhead
	if !s.link.reserve(cost) {
		if !s.alive() {
			return nil, errLost
		}
		return nil, errFull
	}
	w := waiters.Get().(*waiter)
	id := s.expect(w)
	if id == 0 {
		waiters.Put(w)
		s.link.free(cost)
		return nil, errLost
	}
	s.link.push(outgoing{target: &actor.PID{Id: to}, sender: &actor.PID{Id: answersTo, RequestId: id},
		encoded: encoded, typeName: typeName, size: cost, cost: cost})
	var reply *querypb.Reply
	select {
	case reply = <-w.reply:
	case <-ctx.Done():
		if s.forget(id) != nil {
			waiters.Put(w)
			return nil, context.Cause(ctx)
		}
		reply = <-w.reply // the answer, or the end, was faster: it is on its way into the channel
	}
	waiters.Put(w)
	if reply == nil {
		return nil, errLost
	}
	return reply, nil
}

func (s *session) close() {
	s.stream.close()
	s.wg.Wait()
}

var clientHello = &wire.ConnectRequest{ConnectionType: &wire.ConnectRequest_ClientConnection{ClientConnection: &wire.ClientConnection{SystemId: "millrace"}}}
