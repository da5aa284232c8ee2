package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// wireNode names the variable under which this binary is a node that listens and answers until it is killed.
const wireNode = "MILLRACE_TEST_WIRE_NODE"

const wireKeys = 200_000

// TestWireNode is not a test: it is the process that BenchmarkWire asks, with gates, store actors and Pebble behind one address.
func TestWireNode(t *testing.T) {
	if os.Getenv(wireNode) == "" {
		t.Skip("it is the child process of BenchmarkWire")
	}
	l, err := remote.Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := router.New(system(), "app", router.Options{Endpoint: l.Address()})
	text := httpapi.Store{Name: "counts", Kind: "key-value", KeyCodec: "string", Ordered: true,
		ParseKey:    func(s string) ([]byte, error) { return []byte(s), nil },
		FormatKey:   func(b []byte) (string, error) { return string(b), nil },
		FormatValue: func(b []byte) (string, error) { n, err := codec.Int64.Decode(b); return codec.Int64.FormatText(n), err }}
	served := httpapi.Server(httpapi.Handler(always{front}, []httpapi.Store{text}))
	if err := l.Serve(remote.Node{System: system(), App: "app", Client: front, HTTP: served}); err != nil {
		t.Fatal(err)
	}
	behind(t, front, wireKeys)
	fmt.Println("listens on", l.Address())
	select {}
}

// always is a node that runs.
type always struct{ *router.Router }

func (always) State() lifecycle.Node             { return lifecycle.NodeRunning }
func (always) Threads() []lifecycle.ThreadStatus { return nil }

// BenchmarkWire is single gets on loopback from this process of another one, through its gates and store actors out of
// Pebble, in the three ways there are: HTTP/1 on connections that are kept, a query.Client by PID, and a protoactor program
// with the library's own remoting. Both processes share the machine. node-µs/get is what the asked one computes for each.
func BenchmarkWire(b *testing.B) {
	cmd, address := startWireNode(b)
	for _, way := range []struct {
		name    string
		callers []int
		prepare func(testing.TB, string) (ask func(worker) error)
	}{{"http", []int{1, 8, 32}, byHTTP}, {"pid", []int{1, 64, 256}, byClient}, {"future", []int{1, 64, 256}, byFuture}} {
		b.Run(way.name, func(b *testing.B) {
			ask := way.prepare(b, address)
			for _, callers := range way.callers {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchWire(b, cmd.Process.Pid, callers, ask) })
			}
		})
	}
}

// startWireNode starts the process that is asked.
func startWireNode(b *testing.B) (*exec.Cmd, string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWireNode$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), wireNode+"=1", "TMPDIR="+b.TempDir()) // it is killed, and removes nothing
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "listens on ")
	if err != nil || !ok {
		b.Fatalf("the node says %q, %v", line, err)
	}
	return cmd, address
}

// worker is one caller: next gives the next key to ask for and its value.
type worker struct {
	next func() (key string, value uint64, more bool)
}

// benchWire has a number of callers ask for b.N keys between them.
func benchWire(b *testing.B, node, callers int, ask func(worker) error) {
	var taken atomic.Int64
	next := func() (string, uint64, bool) {
		i := taken.Add(1) - 1
		n := uint64(i) * 7919 % wireKeys
		return fmt.Sprintf("word-%08d", n), n, i < int64(b.N)
	}
	theirs := processTime(b, node)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if err := ask(worker{next}); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	theirs = processTime(b, node) - theirs
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
	b.ReportMetric(float64(theirs.Microseconds())/float64(b.N), "node-µs/get")
}

// processTime is the processor time of a process so far, in the kernel's ticks of 10 ms.
func processTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		b.Logf("the other process's time is not known: %v", err)
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

var errWrong = errors.New("the answer is wrong")

// byHTTP asks on one connection for each caller, with as little work for the caller as there can be.
func byHTTP(_ testing.TB, address string) func(worker) error {
	return func(w worker) error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for key, value, more := w.next(); more; key, value, more = w.next() {
			if _, err := fmt.Fprintf(c, "GET /stores/counts/keys/%s HTTP/1.1\r\nHost: node\r\n\r\n", key); err != nil {
				return err
			}
			body, err := readAnswer(r)
			if err != nil {
				return err
			}
			if want := fmt.Sprintf(`"value":"%d"`, value); !bytes.Contains(body, []byte(want)) {
				return fmt.Errorf("%w: %s", errWrong, body)
			}
		}
		return nil
	}
}

// readAnswer reads an answer that is 200 and has a Content-Length.
func readAnswer(r *bufio.Reader) ([]byte, error) {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return nil, fmt.Errorf("%w: %s", errWrong, line)
		}
		if len(line) == 0 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(text)); err != nil {
				return nil, err
			}
		}
	}
	body := make([]byte, max(0, length))
	_, err := io.ReadFull(r, body)
	return body, err
}

// byClient asks with the typed client; all callers share its one connection.
func byClient(b testing.TB, address string) func(worker) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := remote.Dial(ctx, []string{address})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func(w worker) error {
		for key, value, more := w.next(); more; key, value, more = w.next() {
			if v, found, err := query.Get(context.Background(), c, asked{}, []byte(key)); err != nil || !found || v != int64(value) {
				return errors.Join(err, fmt.Errorf("%w: %d", errWrong, v))
			}
		}
		return nil
	}
}

// byFuture asks the gates' PIDs as any protoactor program can that listens itself.
func byFuture(b testing.TB, address string) func(worker) error {
	own := actors.NewSystem(slog.New(slog.DiscardHandler))
	r := wire.NewRemote(own, wire.Configure("127.0.0.1", 0))
	r.Start()
	b.Cleanup(func() { r.Shutdown(true) })
	return func(w worker) error {
		for key, value, more := w.next(); more; key, value, more = w.next() {
			gate := actor.NewPID(address, fmt.Sprintf("app/query/counts/%d", record.Partition([]byte(key), benchPartitions)))
			answer, err := own.Root.RequestFuture(gate, &querypb.Get{Key: []byte(key)}, 20*time.Second).Result()
			if err != nil {
				return err
			}
			v := answer.(*querypb.Reply).GetValue()
			if len(v.GetValue()) != 8 || binary.BigEndian.Uint64(v.GetValue()) != value {
				return fmt.Errorf("%w: %v", errWrong, answer)
			}
		}
		return nil
	}
}
