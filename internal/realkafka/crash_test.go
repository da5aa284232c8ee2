//go:build realkafka

package realkafka_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/realkafka"
)

// A killed process that is started again goes on where it was. Its session time-out is far above the test's patience, so
// that it can only be RUNNING again as the static member that it was, not as a new one after the old has timed out. It
// restores only the changelog's tail: what its state directory holds is not read again.
func TestKilledInTheMiddleGoesOn(t *testing.T) {
	c := realkafka.For(t, 1)
	broker := c.Brokers()[0]
	a := newApplication(t, broker, "killed")
	state := t.TempDir()
	session := []string{"--session-timeout", (4 * patience).String()}

	p := start(t, "first", broker, a.name, state, session...)
	t.Logf("cold start: RUNNING after %s", p.awaitRunning())
	a.feed(20_000)
	a.awaitTruth(false, p)
	p.end(syscall.SIGTERM) // what it has on disk is certain now

	p = start(t, "second", broker, a.name, state, session...)
	p.awaitRunning()
	clean, _ := p.restored()
	a.feed(300_000)
	a.awaitSome(p)
	p.kill()

	p = start(t, "third", broker, a.name, state, session...)
	t.Logf("after kill -9: RUNNING after %s", p.awaitRunning().Round(time.Millisecond))
	from, records := p.restored()
	t.Logf("local state was at %d, and at %d after the clean stop; %d records of the changelog were read", from, clean, records)
	if clean == 0 || from < clean {
		t.Errorf("the changelog was read from %d on, not from the end of what was on disk for certain, %d", from, clean)
	}
	a.awaitTruth(true, p)
	awaitMembers(t, c, a.name, partitions)
}

// A stopped process comes back with its local state and reads the changelog's tail only; without that state the changelog
// alone brings everything back. Both give the same counts.
func TestStateComesBackWithAndWithoutItsDirectory(t *testing.T) {
	c := realkafka.For(t, 1)
	broker := c.Brokers()[0]
	a := newApplication(t, broker, "deleted")
	state := t.TempDir()

	p := start(t, "first", broker, a.name, state)
	p.awaitRunning()
	a.feed(50_000)
	a.awaitTruth(false, p)
	p.end(syscall.SIGTERM)

	p = start(t, "with its state", broker, a.name, state)
	t.Logf("with its state: RUNNING after %s", p.awaitRunning().Round(time.Millisecond))
	a.awaitTruth(false, p)
	if from, records := p.restored(); from == 0 || records > 0 {
		t.Errorf("the local state was at offset %d and %d records were read again, after a clean stop", from, records)
	}
	p.end(os.Interrupt)
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}

	p = start(t, "without its state", broker, a.name, state)
	t.Logf("without its state: RUNNING after %s", p.awaitRunning().Round(time.Millisecond))
	a.awaitTruth(false, p)
	if from, records := p.restored(); from != 0 || records == 0 {
		t.Errorf("the state was deleted, and yet %d records were restored from offset %d on", records, from)
	}
	a.feed(10_000)
	a.awaitTruth(false, p)
}

// A broker that dies and comes back in the middle ends nothing: the process waits, goes on, and misses no word.
func TestBrokerDiesAndComesBack(t *testing.T) {
	c := realkafka.For(t, 1)
	broker := c.Brokers()[0]
	a := newApplication(t, broker, "outage")

	p := start(t, "node", broker, a.name, t.TempDir())
	p.awaitRunning()
	a.feed(300_000)
	a.awaitSome(p)
	c.Kill(1)
	if err := c.Restart(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	a.awaitTruth(true, p)
	a.feed(10_000)
	a.awaitTruth(true, p)
	p.awaitRunning()
}
