package millrace_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
)

// overheard are the client ids of requests, by their kinds.
type overheard struct {
	mu  sync.Mutex // connections belong to many goroutines
	ids map[int16]map[string]bool
	// patience is the longest time that a write was given, of writes.
	patience time.Duration
	writes   int
}

// spied is a connection whose requests are overheard. One goroutine writes to it at a time.
type spied struct {
	net.Conn
	by   *overheard
	head []byte
	// left is how much of the request is still to come, without its head.
	left int
}

// requestHead is a request up to the length of its client id, with its size before it.
const requestHead = 4 + 2 + 2 + 4 + 2

// Write implements net.Conn.
func (s *spied) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if s.left > 0 {
			n := min(s.left, len(rest))
			rest, s.left = rest[n:], s.left-n
			continue
		}
		s.head, rest = append(s.head, rest[0]), rest[1:]
		if len(s.head) < requestHead {
			continue
		}
		n := max(0, int(int16(binary.BigEndian.Uint16(s.head[requestHead-2:]))))
		if len(s.head) < requestHead+n {
			continue
		}
		s.by.note(int16(binary.BigEndian.Uint16(s.head[4:])), string(s.head[requestHead:]))
		s.left = 4 + int(binary.BigEndian.Uint32(s.head)) - len(s.head)
		s.head = s.head[:0]
	}
	return s.Conn.Write(b)
}

// SetWriteDeadline implements net.Conn.
func (s *spied) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		s.by.mu.Lock()
		s.by.patience, s.by.writes = max(s.by.patience, time.Until(at)), s.by.writes+1
		s.by.mu.Unlock()
	}
	return s.Conn.SetWriteDeadline(at)
}

func (o *overheard) note(api int16, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[api] == nil {
		o.ids[api] = map[string]bool{}
	}
	o.ids[api][id] = true
}

func (o *overheard) has(api int16, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[api][id]
}

// What is set for clients is in their requests: how they are called, each by its role, for how long they wait, and how the
// consumers of stream threads fetch.
func TestClientSettingsReachTheBrokers(t *testing.T) {
	c := cluster(t)
	heard := &overheard{ids: map[int16]map[string]bool{}}
	var fetches sync.Map // settings of fetches
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		f := r.(*kmsg.FetchRequest)
		for _, topic := range f.Topics {
			if strings.HasSuffix(topic.Topic, "-changelog") {
				continue // a restore's
			}
			for _, p := range topic.Partitions {
				fetches.Store([2]int32{f.MaxWaitMillis, p.PartitionMaxBytes}, true)
			}
		}
		return nil, nil, false
	})
	start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1),
		millrace.WithClientID("shop"), millrace.WithRequestTimeout(3*time.Second), millrace.WithFetchMaxWait(70*time.Millisecond), millrace.WithFetchPartitionBytes(20_000),
		millrace.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &spied{Conn: conn, by: heard}, nil
		}))
	feed(t, c, "one two", "three", "four", "five")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for api, want := range map[kmsg.Key]string{kmsg.Fetch: "shop-thread-1-consumer", kmsg.JoinGroup: "shop-thread-1-consumer", kmsg.Heartbeat: "shop-thread-1-consumer",
		kmsg.Produce: "shop-thread-1-producer", kmsg.InitProducerID: "shop-thread-1-producer", kmsg.EndTxn: "shop-thread-1-producer", kmsg.CreateTopics: "shop-admin"} {
		await(ctx, t, func() bool { return heard.has(int16(api), want) }, func() string { return want + " has not sent " + api.Name() })
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for api, ids := range heard.ids {
		for id := range ids {
			if !strings.HasPrefix(id, "shop-") {
				t.Errorf("%s by %q", kmsg.Key(api).Name(), id)
			}
		}
	}
	if heard.writes == 0 || heard.patience > 3*time.Second {
		t.Errorf("%d writes were given up to %s", heard.writes, heard.patience)
	}
	seen := 0
	fetches.Range(func(key, _ any) bool {
		seen++
		if got := key.([2]int32); got[1] > 20_000 || got[0] > 70 {
			t.Errorf("a fetch waits %d ms for %d bytes of a partition", got[0], got[1])
		}
		return true
	})
	if seen == 0 {
		t.Error("no fetch was seen")
	}
}
