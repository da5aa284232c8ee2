package millrace_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// inWindows counts lines in windows of 100 ms that emit when they close, by the window's start, and in sessions.
func inWindows(t *testing.T, inMemory bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	keyed := topology.SelectKey(topology.From(b, lines), func(record.Record[string, string]) string { return "k" })
	windows := topology.NewWindowStore("windows", codec.String, codec.Int64, 100*time.Millisecond, time.Second)
	sessions := topology.NewSessionStore("sessions", codec.String, codec.Int64, 2*time.Second)
	if inMemory {
		windows, sessions = windows.InMemory(), sessions.InMemory()
	}
	tumbling := topology.TumblingWindows(100 * time.Millisecond).WithGrace(50 * time.Millisecond)
	closed := topology.CountWindows(keyed, tumbling, windows, topology.OnWindowClose())
	topology.To(topology.FlatMap(closed, func(r record.Record[topology.Windowed[string], int64], emit func(record.Record[string, int64]) error) error {
		return emit(record.New(strconv.FormatInt(r.Key.Start, 10), r.Value, r.Timestamp))
	}), out)
	topology.Peek(topology.CountSessions(keyed, topology.SessionWindows(time.Second), sessions), func(record.Record[topology.Windowed[string], int64]) {})
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// A window's final result comes once for each partition, whatever is restarted, restored or fed again: a record of a window
// that has closed is late, also for a node that has only the changelog to know it from.
func TestWindowsCloseOnceAcrossRestarts(t *testing.T) {
	for name, inMemory := range map[string]bool{"on disk": false, "in memory": true} {
		t.Run(name, func(t *testing.T) {
			bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
				input, _ := texts(1000) // timestamps 0 to 999, so nine windows of ten close
				kept := t.TempDir()
				for _, dir := range []string{kept, kept, t.TempDir()} {
					feed(t, c, input...)
					n := start(t, inWindows(t, inMemory), append(opts, millrace.WithStateDir(dir))...)
					if err := n.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					n.stop()
					seen := map[string]int{}
					for _, r := range visible(t, c, out.Name()) {
						seen[string(r.Key)]++
					}
					if len(seen) != 9 {
						t.Errorf("%d windows closed, not 9: %v", len(seen), seen)
					}
					for start, times := range seen {
						if times < 4 || (times > 4 && strings.Contains(t.Name(), "exactly_once")) {
							t.Errorf("window %s came %d times from 4 partitions", start, times)
						}
					}
				}
			})
		})
	}
}
