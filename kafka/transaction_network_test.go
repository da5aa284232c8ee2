package kafka_test

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// wire lies between the embedded brokers and their clients, and spoils answers: the request is carried out all the same.
//
// The mutex protects the plan, which the test makes and the connections' goroutines carry out.
type wire struct {
	mu      sync.Mutex
	spoil   map[int16]func(answer []byte) []byte // by request; nil cuts the connection instead
	spoiled int
}

// next spoils the next answer to a request; cut when it is nil.
func (w *wire) next(key kmsg.Key, spoil func([]byte) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoil[int16(key)] = spoil
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spoiled
}

// anotherRequests is an answer with another correlation id, which is behind the size.
func anotherRequests(answer []byte) []byte {
	binary.BigEndian.PutUint32(answer[4:], binary.BigEndian.Uint32(answer[4:])+1)
	return answer
}

type wiredListener struct {
	net.Listener
	w *wire
}

func (l wiredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &wired{Conn: c, w: l.w}, nil
}

// wired is one connection as the broker sees it: it reads a request as its size and then the rest, which begins with the
// request's key, and writes an answer in one piece.
type wired struct {
	net.Conn
	w    *wire
	left int
	mu   sync.Mutex // keys: reading and writing are two goroutines of the broker
	keys []int16
}

func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case err != nil:
	case c.left == 0:
		c.left = -int(binary.BigEndian.Uint32(b))
	case c.left < 0:
		c.mu.Lock()
		c.keys = append(c.keys, int16(binary.BigEndian.Uint16(b)))
		c.mu.Unlock()
		c.left = -c.left - n
	default:
		c.left -= n
	}
	return n, err
}

func (c *wired) Write(b []byte) (int, error) {
	c.mu.Lock()
	key := c.keys[0]
	c.keys = c.keys[1:]
	c.mu.Unlock()
	c.w.mu.Lock()
	spoil, ok := c.w.spoil[key]
	if ok {
		delete(c.w.spoil, key)
		c.w.spoiled++
	}
	c.w.mu.Unlock()
	if ok && spoil == nil {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	if ok {
		b = spoil(b)
	}
	return c.Conn.Write(b)
}

func wiredCluster(t *testing.T) (*embedded.Cluster, *wire) {
	w := &wire{spoil: map[int16]func([]byte) []byte{}}
	c, err := embedded.Start(kfake.SeedTopics(1, "t"), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return wiredListener{l, w}, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, w
}

var ofTransaction = []kmsg.Key{kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn}

// The broker has done what it was asked for, and its answer is lost: the transaction is committed all the same, its records
// count once, and another epoch comes before the next one.
func TestLostAnswersCostNothing(t *testing.T) {
	for _, key := range ofTransaction {
		t.Run(key.Name(), func(t *testing.T) {
			c, network := wiredCluster(t)
			if key == kmsg.FindCoordinator || key == kmsg.InitProducerID {
				network.next(key, nil)
			}
			w := newTransactional(t, c.Addrs(), nil)
			w.transact(t, 0, 10)
			if network.count() == 0 {
				network.next(key, nil)
			}
			w.transact(t, 10, 10)
			w.transact(t, 20, 10)
			if network.count() != 1 {
				t.Fatal("no answer was lost")
			}
			inOrder(t, logOf(t, c.Addrs(), tp(0), true), 30)
			reinits := uint64(1)
			if key == kmsg.FindCoordinator || key == kmsg.InitProducerID {
				reinits = 0
			}
			if got := w.Counts(); got.Committed != 3 || got.Reinits != reinits || got.CommitUnknown != 0 {
				t.Fatalf("%+v", got)
			}
		})
	}
}

// An answer that belongs to another request is nobody's outage: it is reported, bare and Fatal, and not retried. The object
// can be used again after an abort, for supervision decides what happens next.
func TestCorrelationMismatchIsBareAndFatal(t *testing.T) {
	for _, key := range ofTransaction[2:] {
		t.Run(key.Name(), func(t *testing.T) {
			c, network := wiredCluster(t)
			w := newTransactional(t, c.Addrs(), nil)
			w.transact(t, 0, 10)
			network.next(key, anotherRequests)
			w.put(t, tp(0), 10, 10)
			f := w.flush(t)
			err := f.Err
			if err == nil {
				err = w.commit(t, at(20), outsider).Err
			}
			var bare sarama.PacketDecodingError
			if err == nil || err.Class != broker.Fatal || !errors.As(err.Cause, &bare) || err.Cause != error(bare) {
				t.Fatalf("%#v", err)
			}
			if a := w.abort(t); a.Err != nil {
				t.Fatal(a.Err)
			}
			n := len(logOf(t, c.Addrs(), tp(0), true)) // a commit that was carried out counts
			w.transact(t, n, 10)
			inOrder(t, logOf(t, c.Addrs(), tp(0), true), n+10)
		})
	}
}

// A commit without an answer, whose repetition the broker answers with 48: it was aborted; with 90: nobody can tell.
func TestRepeatedCommitTellsTheOutcome(t *testing.T) {
	for code, want := range map[*kerr.Error]broker.Class{
		kerr.InvalidTxnState: broker.Abort, kerr.ProducerFenced: broker.CommitUnknown, kerr.InvalidProducerEpoch: broker.CommitUnknown,
		kerr.InvalidProducerIDMapping: broker.CommitUnknown,
	} {
		t.Run(code.Message, func(t *testing.T) {
			c := groupCluster(t, 1)
			w := newTransactional(t, c.Addrs(), nil)
			w.transact(t, 0, 10)
			c.Kfake().ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
				refusing(c, kmsg.EndTxn, code, 1)
				return nil, errors.New("cut"), true
			})
			w.put(t, tp(0), 10, 10)
			w.flush(t)
			if e := w.commit(t, at(20), outsider); e.Err == nil || e.Err.Class != want || e.Err.Code != code.Code {
				t.Fatalf("%+v", e.Err)
			}
			if a := w.abort(t); a.Err != nil {
				t.Fatal(a.Err)
			}
			w.transact(t, 10, 10)
			inOrder(t, logOf(t, c.Addrs(), tp(0), true), 20)
		})
	}
}

// Without an answer for twice the transaction's time-out the outcome is unknown, and said to be.
func TestCommitThatNobodyAnswersIsUnknown(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.TransactionTimeout = time.Second })
	w.transact(t, 0, 10)
	c.Kfake().ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		return nil, errors.New("cut"), true
	})
	w.put(t, tp(0), 10, 10)
	w.flush(t)
	if e := w.commit(t, at(20), outsider); e.Err == nil || e.Err.Class != broker.CommitUnknown {
		t.Fatalf("%+v", e.Err)
	}
	if got := w.Counts(); got.CommitUnknown != 1 || got.Committed != 1 {
		t.Fatalf("%+v", got)
	}
	if a := w.abort(t); a.Err != nil {
		t.Fatal(a.Err)
	}
}
