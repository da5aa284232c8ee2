//go:build realkafka

package realkafka_test

import (
	"bytes"
	endian "encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/realkafka"
)

// verdict is what a gate does with a request.
type verdict uint8

const (
	pass verdict = iota
	// hold keeps the request, and what is behind it on its connection, until the verdict is another.
	hold
	// drop loses the request; its sender waits for an answer.
	drop
	// mute has the request carried out and loses the answer.
	mute
	// cut closes the connection.
	cut
)

// rule judges a request by its key and its whole frame.
type rule func(key kmsg.Key, frame []byte) verdict

// gate lies between a broker and all of its clients.
//
// The mutex protects all fields but target: connections' goroutines read the rule and count, the test writes it and looks.
type gate struct {
	t      *testing.T
	target string

	mu      sync.Mutex
	judge   rule
	changed chan struct{}
	// judged counts verdicts other than pass, by request.
	judged map[kmsg.Key]map[verdict]int
	// refusals are the codes of offset commits in transactions, in order, those that are not 0.
	refusals []int16
	// ended counts the answers to EndTxn.
	ended int
	// muted are the connections that wait for an answer that was lost; lost counts these answers.
	muted []net.Conn
	lost  int
}

// gated is one broker that its clients reach through a gate.
func gated(t *testing.T) (*realkafka.Cluster, *gate) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, judge: func(kmsg.Key, []byte) verdict { return pass }, changed: make(chan struct{}), judged: map[kmsg.Key]map[verdict]int{}}
	ready := make(chan struct{})
	defer close(ready) // also if the broker does not start
	var serving sync.WaitGroup
	serving.Go(func() {
		<-ready
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { g.serve(c) })
		}
	})
	t.Cleanup(func() {
		g.set(func(kmsg.Key, []byte) verdict { return cut })
		serving.Wait()
	})
	t.Cleanup(func() { l.Close() })
	c := realkafka.For(t, 1, realkafka.Setting("advertised.listeners", "PLAINTEXT://"+l.Addr().String()))
	g.target = c.Brokers()[0]
	return c, g
}

// set changes the rule, for requests that are held too, and hangs up on who waits for a muted answer.
func (g *gate) set(r rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.judge = r
	close(g.changed)
	g.changed = make(chan struct{})
	for _, c := range g.muted {
		c.Close()
	}
	g.muted = nil
}

// verdict judges a request, for as long as it is held.
func (g *gate) verdict(c net.Conn, key kmsg.Key, frame []byte) verdict {
	for counted := false; ; {
		g.mu.Lock()
		v, changed := g.judge(key, frame), g.changed
		if !counted && v != pass {
			if g.judged[key] == nil {
				g.judged[key] = map[verdict]int{}
			}
			g.judged[key][v]++
			counted = true
		}
		if v == mute {
			g.muted = append(g.muted, c)
		}
		g.mu.Unlock()
		if v != hold {
			return v
		}
		<-changed
	}
}

func (g *gate) count(key kmsg.Key, v verdict) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.judged[key][v]
}

// refused are the codes that offset commits in transactions got.
func (g *gate) refused() []int16 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refusals)
}

func (g *gate) ends() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

func (g *gate) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost++
}

func (g *gate) losses() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// open lets everything pass.
func (g *gate) open() { g.set(func(kmsg.Key, []byte) verdict { return pass }) }

// asked is what an answer is an answer to.
type asked struct {
	key     kmsg.Key
	version int16
	muted   bool
}

// serve carries one connection until either side ends it.
func (g *gate) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	pending := make(chan asked, 1000) // Kafka answers in order
	var back sync.WaitGroup
	back.Go(func() { g.answers(client, server, pending) })
	for {
		frame, err := readFrame(client)
		if err != nil || len(frame) < 12 {
			break
		}
		a := asked{key: kmsg.Key(endian.BigEndian.Uint16(frame[4:])), version: int16(endian.BigEndian.Uint16(frame[6:]))}
		v := g.verdict(client, a.key, frame)
		if v == cut {
			break
		}
		if v == drop {
			continue
		}
		a.muted = v == mute
		// A produce request that asks for no acknowledgement has no answer; nobody here sends any.
		pending <- a
		if _, err := server.Write(frame); err != nil {
			break
		}
	}
	server.Close()
	client.Close()
	back.Wait()
}

func (g *gate) answers(client, server net.Conn, pending <-chan asked) {
	defer client.Close()
	for {
		frame, err := readFrame(server)
		if err != nil {
			return
		}
		a := <-pending
		g.note(a, frame)
		if a.muted {
			g.lose()
			continue
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// note remembers what the tests want to know of answers.
func (g *gate) note(a asked, frame []byte) {
	switch a.key {
	case kmsg.EndTxn:
		g.mu.Lock()
		g.ended++
		g.mu.Unlock()
	case kmsg.TxnOffsetCommit:
		codes, err := offsetCodes(a.version, frame)
		if err != nil {
			g.t.Error(err)
		}
		g.mu.Lock()
		g.refusals = append(g.refusals, codes...)
		g.mu.Unlock()
	}
}

// offsetCodes are the codes other than 0 in an answer to TxnOffsetCommit.
func offsetCodes(version int16, frame []byte) (codes []int16, err error) {
	answer := kmsg.NewPtrTxnOffsetCommitResponse()
	answer.Version = version
	body := frame[8:]
	if answer.IsFlexible() {
		body = body[1:] // the header's tags, of which there are none
	}
	if err := answer.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("an answer to TxnOffsetCommit %d cannot be read: %w", version, err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				codes = append(codes, p.ErrorCode)
			}
		}
	}
	return codes, nil
}

// readFrame reads a request or an answer, its size included.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := append(size[:], make([]byte, endian.BigEndian.Uint32(size[:]))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// of applies a rule to requests that name id, and lets others pass.
func (r rule) of(id string) rule {
	return func(key kmsg.Key, frame []byte) verdict {
		if !bytes.Contains(frame, []byte(id)) {
			return pass
		}
		return r(key, frame)
	}
}
