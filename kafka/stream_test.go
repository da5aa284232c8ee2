package kafka

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// answering answers each request of a connection with its own bytes behind the head, changed if the test wants it.
func answering(t *testing.T, change func(n int, answer []byte) []byte) net.Conn {
	ours, theirs := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := 0; ; n++ {
			head := make([]byte, correlationAt+4)
			if _, err := io.ReadFull(theirs, head); err != nil {
				return
			}
			body := make([]byte, int(binary.BigEndian.Uint32(head))-len(head)+4)
			if _, err := io.ReadFull(theirs, body); err != nil {
				return
			}
			answer := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
			answer = append(append(answer, head[correlationAt:]...), body...)
			if change != nil {
				answer = change(n, answer)
			}
			if _, err := theirs.Write(answer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		<-over
	})
	return ours
}

func request(text string) []byte { return append(newRequest(nil, apiFetch, fetchVersion, ""), text...) }

// Answers come in the order of the requests, and in parts or whole they are the same.
func TestStreamAnswersInOrder(t *testing.T) {
	s := newStream(answering(t, nil), time.Minute, time.Minute, nil)
	got := make(chan string, 3)
	for _, text := range []string{"one", "two", "three"} {
		err := s.send(func(answer []byte, err error) { got <- string(answer[2:]) }, request(text[:1]), []byte(text[1:]))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"one", "two", "three"} {
		if text := <-got; text != want {
			t.Fatalf("%q, want %q", text, want)
		}
	}
	s.close()
	<-s.done
	if err := s.send(nil, request("four")); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// An answer with another request's id ends the connection, for all that wait on it.
func TestStreamEndsWithAStrangeAnswer(t *testing.T) {
	s := newStream(answering(t, func(n int, answer []byte) []byte {
		answer[7] += byte(5 * n)
		return answer
	}), time.Minute, time.Minute, nil)
	if _, err := s.exchange(request("fine")); err != nil {
		t.Fatal(err)
	}
	var malformed sarama.PacketDecodingError
	if _, err := s.exchange(request("not fine")); !errors.As(err, &malformed) {
		t.Fatal(err)
	}
	<-s.done
	if _, err := s.exchange(request("after")); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// The library has its turn when nobody waits for an answer, and not before it is time.
func TestStreamRenews(t *testing.T) {
	calls := 0
	s := newStream(answering(t, nil), time.Minute, time.Minute, func() error { calls++; return nil })
	now := s.renewed
	for _, step := range []struct {
		pending int32
		calls   int
		after   time.Duration
	}{{0, 0, renewEvery - 1}, {1, 0, renewEvery}, {0, 1, renewEvery}, {0, 1, renewEvery + 1}, {0, 2, 2 * renewEvery}} {
		s.pending.Store(step.pending)
		if err := s.maybeRenew(now.Add(step.after)); err != nil || calls != step.calls {
			t.Fatalf("%+v: %d calls, %v", step, calls, err)
		}
	}
	s.close()
	<-s.done
}
