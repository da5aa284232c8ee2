//go:build realkafka

package realkafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// copier is a node that copies "in" to "out", exactly once, and dies of nothing but its test.
type copier struct {
	*millrace.Node
	t     *testing.T
	name  string
	state string
	log   *output
}

const copying = "copying"

func newCopier(t *testing.T, c *realkafka.Cluster, g *gate, name string, more ...millrace.Option) *copier {
	t.Helper()
	b := topology.NewBuilder()
	topology.To(topology.From(b, topology.NewTopic("in", codec.Bytes, codec.String)), topology.NewTopic("out", codec.Bytes, codec.String))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n := &copier{t: t, name: name, state: t.TempDir(), log: &output{}}
	n.Node, err = millrace.New(copying, top, append([]millrace.Option{millrace.WithBrokers(c.Brokers()...), millrace.WithStateDir(n.state), millrace.WithThreads(1),
		millrace.WithSessionTimeout(6 * time.Second), millrace.WithTransactionTimeout(2 * time.Minute), millrace.WithStartTimeout(2 * time.Minute),
		millrace.WithLogger(slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})))}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() {
		g.open()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(n.Shutdown(ctx), <-ended); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, n.log)
		}
	})
	return n
}

// id is the node's process id, which its group and transaction requests carry.
func (n *copier) id() (id string) {
	n.t.Helper()
	await(n.t, n.name+" has a process id", func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(n.state, copying, "process"))
		if id = strings.TrimSpace(string(text)); err == nil && id == "" {
			err = errors.New("it is empty")
		}
		return err
	})
	return id
}

// has waits until the node is RUNNING with so many tasks.
func (n *copier) has(tasks int) {
	n.t.Helper()
	await(n.t, fmt.Sprintf("%s runs %d tasks", n.name, tasks), func(context.Context) error {
		if s, owned := n.State(), n.Owned(); s != lifecycle.NodeRunning || len(owned) != tasks {
			return fmt.Errorf("it is %s and has %v", s, owned)
		}
		return nil
	})
}

// shares waits until both have some of the three tasks.
func (n *copier) shares(with *copier) {
	n.t.Helper()
	await(n.t, "the two share the tasks", func(context.Context) error {
		if a, b := len(n.Owned()), len(with.Owned()); a == 3 || a == 0 || a+b != 3 {
			return fmt.Errorf("%s has %d, %s has %d", n.name, a, with.name, b)
		}
		return nil
	})
}

// drained waits until all that is in "in" is committed, by whomever.
func (n *copier) drained() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Drain(ctx); err != nil {
		n.t.Fatalf("%s does not drain: %v", n.name, err)
	}
}

// inputs are what a test has written, by partition.
type inputs struct {
	*producer
	written [3][]string
}

func newInputs(t *testing.T, c *realkafka.Cluster) *inputs {
	t.Helper()
	newTopic(t, c, "in", nil)
	newTopic(t, c, "out", nil)
	return &inputs{producer: newProducer(t, c, "inputs")}
}

func (in *inputs) write(name string) {
	in.t.Helper()
	for p := range in.written {
		for i := range 5 {
			in.written[p] = append(in.written[p], fmt.Sprint(name, "-", p, "-", i))
		}
		in.must(record.TopicPartition{Topic: "in", Partition: int32(p)}, in.written[p][len(in.written[p])-5:]...)
	}
}

// copied fails the test unless each input is in "out" once.
func (in *inputs) copied(c *realkafka.Cluster) {
	in.t.Helper()
	times := map[string]int{}
	for p := range in.written {
		for _, v := range in.written[p] {
			times[v]--
		}
		for _, v := range committed(in.t, c, out(int32(p))) {
			times[v]++
		}
	}
	for v, n := range times {
		if n != 0 {
			in.t.Errorf("%s is in the outputs %d times, and not once", v, n+1)
		}
	}
}

// A member that the group has thrown out, and that does not know it yet, has an offset commit on its way. Its transaction is
// open, and nobody has fenced it: it never committed before, so nothing that the next owner could read names it. Only the
// generation and the member id that go with the offsets tell that they come too late.
func TestOffsetsOfAMemberThatIsNoneAreRefused(t *testing.T) {
	c, g := gated(t)
	in := newInputs(t, c)
	in.write("first")
	early := rule(func(key kmsg.Key, _ []byte) verdict {
		switch key {
		case kmsg.Heartbeat:
			return drop
		case kmsg.TxnOffsetCommit:
			return hold
		}
		return pass
	})
	g.set(early)
	old := newCopier(t, c, g, "the old owner")
	id := old.id()
	await(t, "the first commit is on its way", func(context.Context) error {
		if g.count(kmsg.TxnOffsetCommit, hold) == 0 {
			return errors.New("no offsets are held")
		}
		return nil
	})
	g.set(early.of(id))
	next := newCopier(t, c, g, "the next owner")
	next.has(3)
	next.drained()
	if state(t, c, copying+"-"+id+"-thread-1") != "Ongoing" {
		t.Fatal("the old owner's transaction is not open, so this shows nothing")
	}
	old.has(3) // it does not know
	g.open()
	old.shares(next)
	in.write("last")
	old.drained()
	in.copied(c)
	if codes := g.refused(); !slices.Contains(codes, 25) {
		t.Errorf("the late offsets were not refused as a stranger's, 25: %v", codes)
	}
	if counts := old.Transactions(); counts.Producers != 1 {
		t.Errorf("the old owner made another producer: %+v", counts)
	}
}

// dead cuts a node off. What names its transactional id to take it over is the next owner's.
var dead = rule(func(key kmsg.Key, frame []byte) verdict {
	nobody := bytes.Repeat([]byte{0xff}, 8+2) // a producer id and an epoch of -1
	if key == kmsg.FindCoordinator || (key == kmsg.InitProducerID && bytes.Contains(frame, nobody)) {
		return pass
	}
	return cut
})

// A member commits with the generation that it knows, while the group has gone on to another and the answer that would tell
// it is lost. Its offsets are refused, so its records must not count: it dies before it could commit anything later, and
// the next owner processes the same inputs.
func TestRecordsWithoutTheirOffsetsDoNotCount(t *testing.T) {
	c, g := gated(t)
	in := newInputs(t, c)
	in.write("first")
	old := newCopier(t, c, g, "the old owner")
	old.has(3)
	old.drained()
	id := old.id()
	g.set(rule(func(key kmsg.Key, _ []byte) verdict {
		if key == kmsg.JoinGroup {
			return mute
		}
		return pass
	}).of(id))
	next := newCopier(t, c, g, "the next owner")
	await(t, "the group has begun another generation", func(context.Context) error {
		if g.losses() == 0 {
			return errors.New("no answer to a join was lost")
		}
		return nil
	})
	ends := g.ends()
	in.write("second")
	ends += len(in.written) // the writer's own
	await(t, "the old owner's offsets are refused and its transaction is ended", func(context.Context) error {
		if codes := g.refused(); !slices.Contains(codes, 22) || g.ends() <= ends {
			return fmt.Errorf("the codes are %v, and %d ends, of which %d are others'", codes, g.ends(), ends)
		}
		return nil
	})
	g.set(dead.of(id))
	next.has(3)
	next.drained()
	in.copied(c)
	g.open()
	old.shares(next)
	in.write("last")
	old.drained()
	in.copied(c)
}

// A commit is carried out, and every answer to it is lost, for longer than anybody asks again. Its records count although its
// sender cannot know: the offsets that went with it say so, and nothing is copied a second time.
func TestCommitThatNobodyAnswersForIsFoundCommitted(t *testing.T) {
	c, g := gated(t)
	in := newInputs(t, c)
	in.write("first")
	n := newCopier(t, c, g, "the copier", millrace.WithTransactionTimeout(time.Second))
	n.has(3)
	n.drained()
	unanswered := rule(func(key kmsg.Key, _ []byte) verdict {
		if key == kmsg.EndTxn {
			return mute
		}
		return pass
	}).of(n.id())
	g.set(unanswered)
	in.write("second")
	await(t, "the copier gives up asking", func(context.Context) error {
		g.set(unanswered) // hangs up, so that it asks again
		if n.Transactions().CommitUnknown == 0 {
			return fmt.Errorf("%d answers are lost", g.losses())
		}
		return nil
	})
	g.open()
	await(t, "the copier finds out", func(context.Context) error {
		if !strings.Contains(n.log.String(), "found out how a commit ended") {
			return errors.New("it does not say so")
		}
		return nil
	})
	if !strings.Contains(n.log.String(), "committed=true") {
		t.Error("it found that the commit had failed, and every one was carried out")
	}
	in.write("last")
	n.drained()
	in.copied(c)
	if counts := n.Transactions(); counts.Producers != 1 || counts.CommitUnknown != 1 {
		t.Errorf("%+v", counts)
	}
}
