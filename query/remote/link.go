package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
)

// outgoing is one message on its way out.
type outgoing struct {
	target, sender *actor.PID
	message        proto.Message
	// encoded is used in the place of message if it is set.
	encoded  []byte
	typeName string
	size     int64
	// cost is what is given back when it was written.
	cost int64
}

// link is what waits to be written to one stream. Nothing waits for it: what does not fit is refused.
//
// The mutex protects the fields below it: any goroutine appends to the queue and the writer takes away.
type link struct {
	wake chan struct{}
	// all is what is kept for all peers.
	all *atomic.Int64

	mu    sync.Mutex
	queue []outgoing
	// bytes is what is kept for this peer: the questions that are being answered too.
	bytes  int64
	closed bool
}

func newLink(all *atomic.Int64) *link { return &link{all: all, wake: make(chan struct{}, 1)} }

// reserve is false if so many bytes are too many.
func (l *link) reserve(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.bytes+n > MaxPeerBytes {
		return false
	}
	if l.all.Add(n) > MaxBytes {
		l.all.Add(-n)
		return false
	}
	l.bytes += n
	return true
}

func (l *link) free(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.bytes -= n
		l.all.Add(-n)
	}
}

func (l *link) push(o outgoing) {
	l.mu.Lock()
	if !l.closed {
		l.queue = append(l.queue, o)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take removes as much as one message of the stream may hold.
func (l *link) take(into []outgoing) []outgoing {
	l.mu.Lock()
	defer l.mu.Unlock()
	size, n := int64(0), 0
	for n < len(l.queue) && n < batchMessages {
		if size += l.queue[n].size; n > 0 && size > batchBytes {
			break
		}
		n++
	}
	into = append(into, l.queue[:n]...)
	if n == len(l.queue) {
		clear(l.queue)
		l.queue = l.queue[:0]
		if cap(l.queue) > MaxPeerQuestions {
			l.queue = nil
		}
	} else {
		clear(l.queue[:n])
		l.queue = l.queue[n:]
	}
	return into
}

// run writes until ctx ends or send fails. stuck is called if one send takes longer than StuckTime.
func (l *link) run(ctx context.Context, send func(*wire.RemoteMessage) error, stuck func(), wrote func(int)) error {
	timer := time.AfterFunc(time.Hour, stuck)
	defer timer.Stop()
	var taken []outgoing
	for {
		if taken = l.take(taken[:0]); len(taken) == 0 {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		timer.Reset(StuckTime)
		err := send(batch(taken))
		timer.Reset(time.Hour)
		cost := int64(0)
		for _, o := range taken {
			cost += o.cost
		}
		l.free(cost)
		wrote(len(taken))
		clear(taken)
		if err != nil {
			return err
		}
	}
}

// close gives back what will not be written, or is being written by somebody who is stuck.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.all.Add(-l.bytes)
	}
	l.closed, l.queue = true, nil
}

// batch is the wire form: names and addresses once, and numbers into them.
func batch(messages []outgoing) *wire.RemoteMessage {
	b := &wire.MessageBatch{Envelopes: make([]*wire.MessageEnvelope, 0, len(messages))}
	types, targets, senders := map[string]int32{}, map[string]int32{}, map[string]int32{}
	for _, o := range messages {
		data := o.encoded
		if data == nil {
			var err error
			if data, err = proto.Marshal(o.message); err != nil { // a text of the host's that is no UTF-8
				data, _ = proto.Marshal(query.ToReply(query.New(query.StoreFailure, "", query.NoPartition)))
			}
		}
		e := &wire.MessageEnvelope{MessageData: data, TargetRequestId: o.target.GetRequestId()}
		e.TypeId = index(types, o.typeName, func() { b.TypeNames = append(b.TypeNames, o.typeName) })
		e.Target = index(targets, o.target.Address+"/"+o.target.Id, func() {
			b.Targets = append(b.Targets, &actor.PID{Address: o.target.Address, Id: o.target.Id})
		})
		if s := o.sender; s != nil {
			e.SenderRequestId = s.RequestId
			e.Sender = 1 + index(senders, s.Address+"/"+s.Id, func() {
				b.Senders = append(b.Senders, &actor.PID{Address: s.Address, Id: s.Id})
			})
		}
		b.Envelopes = append(b.Envelopes, e)
	}
	return &wire.RemoteMessage{MessageType: &wire.RemoteMessage_MessageBatch{MessageBatch: b}}
}

// index is the number of a name in a list; add appends it when it is new.
func index(known map[string]int32, name string, add func()) int32 {
	i, ok := known[name]
	if !ok {
		i = int32(len(known))
		known[name] = i
		add()
	}
	return i
}
