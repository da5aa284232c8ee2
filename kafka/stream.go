package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stream is a connection for requests that are encoded here. The client library has opened it, authenticated, and is silent
// from then on: it reads only while it waits for an answer of its own, and is asked for none. Answers come in the order of
// the requests, each to the function that was given with its request, on the stream's goroutine.
//
// The mutex makes writing a request and queueing for its answer one step, as any goroutine may send.
type stream struct {
	conn                      net.Conn
	readTimeout, writeTimeout time.Duration
	done                      chan struct{}
	// renew lets the library authenticate again, if it is time; nil without SASL. Brokers may be configured to cut connections
	// that do not (connections.max.reauth.ms, KIP-368), and only the library knows when.
	renew func() error

	mu          sync.Mutex
	waiting     chan waiting
	correlation uint32
	closed      bool
	renewed     time.Time // when renew was last called
	// pending is how many requests have no answer. The stream's goroutine counts down without the mutex: who holds it may be
	// writing, and a broker may read no further until its answer is taken.
	pending atomic.Int32
}

// waiting is a request without its answer.
type waiting struct {
	correlation uint32
	answered    func(answer []byte, err error)
}

// streamRequests is how many requests may be without an answer. Senders keep to less.
const streamRequests = 16

// renewEvery is how often a stream that is idle for a moment calls renew. The library does nothing there most of the time but
// ask for the broker's versions.
const renewEvery = 30 * time.Second

// answerLimit is the largest answer that is believed to be one.
const answerLimit = 1 << 30

func newStream(conn net.Conn, readTimeout, writeTimeout time.Duration, renew func() error) *stream {
	s := &stream{
		conn: conn, readTimeout: readTimeout, writeTimeout: writeTimeout, renew: renew, renewed: time.Now(),
		done: make(chan struct{}), waiting: make(chan waiting, streamRequests),
	}
	go s.receive()
	return s
}

// send writes a request, which newRequest has begun, in parts: they are not joined, since most of a request is records. answered
// is called exactly once if the error is nil, and never otherwise.
func (s *stream) send(answered func(answer []byte, err error), parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if err := s.maybeRenew(time.Now()); err != nil {
		s.cut()
		return err
	}
	s.correlation++
	binary.BigEndian.PutUint32(parts[0], uint32(size-4))
	binary.BigEndian.PutUint32(parts[0][correlationAt:], s.correlation)
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	if err := s.write(parts, size); err != nil {
		s.cut()
		return err
	}
	s.pending.Add(1)
	s.waiting <- waiting{s.correlation, answered}
	return nil
}

// maybeRenew is for who holds the mutex. The library may use the connection while nobody waits for an answer on it.
func (s *stream) maybeRenew(now time.Time) error {
	if s.renew == nil || s.pending.Load() > 0 || now.Sub(s.renewed) < renewEvery {
		return nil
	}
	s.renewed = now
	return s.renew()
}

// write sends the parts in one call of the kernel where the connection can, and joined where it cannot: over TLS each part
// would be a record of its own.
func (s *stream) write(parts [][]byte, size int) error {
	if _, bare := s.conn.(*net.TCPConn); !bare && len(parts) > 1 {
		whole := make([]byte, 0, size)
		for _, p := range parts {
			whole = append(whole, p...)
		}
		parts = [][]byte{whole}
	}
	buffers := net.Buffers(parts)
	_, err := buffers.WriteTo(s.conn)
	return err
}

// exchange sends a request and waits for its answer.
func (s *stream) exchange(parts ...[]byte) (answer []byte, err error) {
	done := make(chan struct{})
	sent := s.send(func(b []byte, e error) {
		answer, err = b, e
		close(done)
	}, parts...)
	if sent != nil {
		return nil, sent
	}
	<-done
	return answer, err
}

// receive reads answers until the connection ends, and gives what it ended with to all that still wait.
func (s *stream) receive() {
	defer close(s.done)
	var dead error
	var head [8]byte
	for w := range s.waiting {
		if dead != nil {
			w.answered(nil, dead)
			continue
		}
		var answer []byte
		if answer, dead = s.answer(head[:], w.correlation); dead != nil {
			_ = s.conn.Close() // ends a write that somebody holds the mutex for
			s.close()
		}
		s.pending.Add(-1)
		w.answered(answer, dead)
	}
}

func (s *stream) answer(head []byte, correlation uint32) ([]byte, error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(s.readTimeout))
	if _, err := io.ReadFull(s.conn, head); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head)) - 4
	switch got := binary.BigEndian.Uint32(head[4:]); {
	case got != correlation:
		return nil, malformed("an answer belongs to another request")
	case size < 0 || size > answerLimit:
		return nil, malformed("an answer has an impossible length")
	}
	answer := make([]byte, size)
	_ = s.conn.SetReadDeadline(time.Now().Add(s.readTimeout))
	_, err := io.ReadFull(s.conn, answer)
	return answer, err
}

// close ends the connection; requests without an answer fail. It does not wait for that.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
}

// cut is close for who holds the mutex.
func (s *stream) cut() {
	if !s.closed {
		s.closed = true
		_ = s.conn.Close()
		close(s.waiting)
	}
}
