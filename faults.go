package millrace

import (
	"context"
	"net"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// WithFaults gives a test the points of package fault to break the node at. It is not for production, where it would cost a
// call for each record; package millracetest makes hooks.
func WithFaults(h fault.Hook) Option { return func(o *options) { o.fault = h } }

// WithDialer makes the connections to brokers, in the place of net.Dialer: a proxy, or a network that a test can cut. An
// error is a broker that cannot be reached.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// breakable is a producer that a test may break; without a hook, the producer itself.
func breakable(p thread.Producer, s *thread.Slot, h fault.Hook) thread.Producer {
	if h == nil {
		return p
	}
	return &breakableProducer{p, s, h}
}

// breakableProducer answers in the producer's place where the hook has an error. The producer then has neither seen the
// request nor will answer it: as after a request that was refused.
type breakableProducer struct {
	thread.Producer
	slot *thread.Slot
	hook fault.Hook
}

func (p *breakableProducer) at(point fault.Point, to record.TopicPartition) error {
	return p.hook.At(fault.Site{Point: point, Thread: p.slot.Name, Source: to})
}

func refusal(op broker.Op, class broker.Class, to record.TopicPartition, cause error) *broker.Error {
	return &broker.Error{Op: op, Class: class, Source: to, Cause: cause}
}

// Append implements thread.Producer.
func (p *breakableProducer) Append(tp record.TopicPartition, r *record.Raw) error {
	if err := p.at(fault.ProducerAppend, tp); err != nil {
		return refusal(broker.OpProduce, broker.Fatal, tp, err)
	}
	return p.Producer.Append(tp, r)
}

// Flush implements thread.Producer.
func (p *breakableProducer) Flush(token uint64) {
	if err := p.at(fault.ProducerFlush, record.TopicPartition{}); err != nil {
		p.slot.Inbox.Put(broker.Flushed{Token: token, Err: refusal(broker.OpProduce, broker.Abort, record.TopicPartition{}, err)})
		return
	}
	p.Producer.Flush(token)
}

// Commit implements thread.Producer.
func (p *breakableProducer) Commit(token uint64, offsets broker.Offsets, of broker.Membership) {
	if err := p.at(fault.ProducerCommit, record.TopicPartition{}); err != nil {
		p.slot.Inbox.Put(broker.TransactionEnded{Token: token, Err: refusal(broker.OpEndTxn, broker.Abort, record.TopicPartition{}, err)})
		return
	}
	p.Producer.Commit(token, offsets, of)
}

// Abort implements thread.Producer.
func (p *breakableProducer) Abort(token uint64) {
	if err := p.at(fault.ProducerAbort, record.TopicPartition{}); err != nil {
		p.slot.Inbox.Put(broker.TransactionAborted{Token: token, Err: refusal(broker.OpEndTxn, broker.Fatal, record.TopicPartition{}, err)})
		return
	}
	p.Producer.Abort(token)
}
