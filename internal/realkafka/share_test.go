//go:build realkafka

package realkafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/internal/realkafka"
)

// partitions is what the group has to share out: four of the lines, four of the words.
const partitions = 8

// members asks Kafka's own tool who is in the group, and returns how many partitions each member has, in order.
func members(ctx context.Context, c *realkafka.Cluster, group string) (counts []int, text string, err error) {
	text, err = c.Groups(ctx, "--describe", "--members", "--verbose", "--group", group)
	if err != nil {
		return nil, text, fmt.Errorf("%w: %s", err, text)
	}
	column := -1
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if column < 0 {
			column = slices.Index(fields, "#PARTITIONS")
			continue
		}
		if len(fields) <= column || fields[0] != group {
			continue
		}
		n, err := strconv.Atoi(fields[column])
		if err != nil {
			return nil, text, fmt.Errorf("the tool's table has no number where it should: %s", line)
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts, text, nil
}

func awaitMembers(t *testing.T, c *realkafka.Cluster, group string, want ...int) {
	t.Helper()
	var last string
	await(t, fmt.Sprintf("the members of %s have %v partitions", group, want), func(ctx context.Context) error {
		counts, text, err := members(ctx, c, group)
		if last = text; err == nil && !slices.Equal(counts, want) {
			err = fmt.Errorf("they have %v:\n%s", counts, text)
		}
		return err
	})
	t.Logf("kafka-consumer-groups says:\n%s", last)
}

// placed matches, in the tool's verbose table, a topic and its partitions: lines(0,1) or lines:0,1.
var placed = regexp.MustCompile(`([a-zA-Z0-9._-]+)[(:]([0-9]+(?:,[0-9]+)*)`)

// assertVerbose: kafka-consumer-groups --members --verbose shows each member with its own partitions, all of them once.
func assertVerbose(t *testing.T, c *realkafka.Cluster, group string, memberCount int) {
	t.Helper()
	_, text, err := members(t.Context(), c, group)
	if err != nil {
		t.Fatal(err)
	}
	owners, shown := map[string]string{}, 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != group {
			continue
		}
		before := len(owners)
		for _, m := range placed.FindAllStringSubmatch(strings.Join(fields[4:], " "), -1) {
			for id := range strings.SplitSeq(m[2], ",") {
				tp := m[1] + "-" + id
				if other, taken := owners[tp]; taken && other != fields[1] {
					t.Errorf("%s is shown at %s and at %s", tp, other, fields[1])
				}
				owners[tp] = fields[1]
			}
		}
		if len(owners) > before {
			shown++
		}
	}
	if shown != memberCount || len(owners) != partitions {
		t.Errorf("%d members are shown with %d partitions, want %d with %d:\n%s", shown, len(owners), memberCount, partitions, text)
	}
}

// groupState asks Kafka's own tool for the state of the group.
func groupState(ctx context.Context, c *realkafka.Cluster, group, want string) error {
	text, err := c.Groups(ctx, "--describe", "--state", "--group", group)
	if err == nil && !strings.Contains(text, want) {
		err = errors.New("it is not " + want)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// A rebalance does not stop those who keep their partitions: they process and commit while the group waits for a member. The
// wait is made long by a member that is stopped, and Kafka's own tool says that it still lasts when the counts have grown.
func TestStayersProcessWhileTheGroupRebalances(t *testing.T) {
	c := realkafka.For(t, 1)
	broker := c.Brokers()[0]
	a := newApplication(t, broker, "during")
	long := []string{"--session-timeout", patience.String()}
	stayer := start(t, "stayer", broker, a.name, t.TempDir(), long...)
	stayer.awaitRunning()
	sleeper := start(t, "sleeper", broker, a.name, t.TempDir(), long...)
	sleeper.awaitRunning()
	awaitMembers(t, c, a.name, partitions/2, partitions/2)
	a.feed(5_000)
	a.awaitTruth(false, stayer, sleeper)
	before := map[string]int64{}
	for _, word := range a.words {
		if n, err := stayer.count(t.Context(), word); err == nil {
			before[word] = n
		}
	}
	if len(before) == 0 || len(before) == len(a.words) {
		t.Fatalf("%d of %d words are at the one that stays: the partitions did not divide", len(before), len(a.words))
	}

	if err := sleeper.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	start(t, "newcomer", broker, a.name, t.TempDir(), long...)
	await(t, "the group rebalances", func(ctx context.Context) error { return groupState(ctx, c, a.name, "PreparingRebalance") })
	a.feed(5_000)
	await(t, "the counts of the one that stays have grown", func(ctx context.Context) error {
		for word, was := range before {
			n, err := stayer.count(ctx, word)
			if err == nil && n <= was {
				err = fmt.Errorf("%s is still %d", word, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := groupState(t.Context(), c, a.name, "PreparingRebalance"); err != nil {
		t.Fatalf("the rebalance was over before the counts had grown, so nothing was shown: %v", err)
	}
	if err := sleeper.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "three members share the partitions", func(ctx context.Context) error {
		counts, text, err := members(ctx, c, a.name)
		if err == nil && (len(counts) != 3 || counts[0] == 0 || counts[0]+counts[1]+counts[2] != partitions) {
			err = fmt.Errorf("they have %v:\n%s", counts, text)
		}
		return err
	})
	assertVerbose(t, c, a.name, 3)
}

// Two processes share the partitions; when one stops, the other takes over; when it comes back, half of them move back, and
// the other half never stops answering. Nothing fails on the way, so nothing is counted twice.
func TestTwoProcessesShareTakeOverAndGiveBack(t *testing.T) {
	c := realkafka.For(t, 1)
	broker := c.Brokers()[0]
	a := newApplication(t, broker, "share")
	firstState, secondState := t.TempDir(), t.TempDir()

	first := start(t, "first", broker, a.name, firstState)
	first.awaitRunning()
	a.feed(20_000)
	second := start(t, "second", broker, a.name, secondState)
	second.awaitRunning()
	awaitMembers(t, c, a.name, partitions/2, partitions/2)
	assertVerbose(t, c, a.name, 2)
	a.feed(20_000)
	a.awaitTruth(false, first, second)

	first.end(os.Interrupt)
	awaitMembers(t, c, a.name, partitions)
	a.feed(20_000)
	a.awaitTruth(false, second)

	watch := watchStores(second, a.words)
	first = start(t, "first again", broker, a.name, firstState)
	first.awaitRunning()
	awaitMembers(t, c, a.name, partitions/2, partitions/2)
	a.feed(20_000)
	a.awaitTruth(false, first, second)
	watch.assertStayersNeverPaused(t)
	second.end(syscall.SIGTERM)
}

// watcher asks one process for every word, over and over.
type watcher struct {
	stop    context.CancelFunc
	stopped chan struct{}
	// answers has, per word, one entry per round: nil for a value.
	answers map[string][]error
}

func watchStores(p *process, words []string) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{stop: stop, stopped: make(chan struct{}), answers: map[string][]error{}}
	go func() {
		defer close(w.stopped)
		for ctx.Err() == nil {
			for _, word := range words {
				_, err := p.count(context.WithoutCancel(ctx), word)
				w.answers[word] = append(w.answers[word], err)
			}
		}
	}()
	return w
}

// assertStayersNeverPaused: words that the process still has at the end were answered in every round, and there are words
// that it still has and words that it gave away, or else nothing was tried.
func (w *watcher) assertStayersNeverPaused(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.stopped
	stayed, moved := 0, 0
	for word, answers := range w.answers {
		if answers[len(answers)-1] != nil {
			moved++
			continue
		}
		stayed++
		if err := errors.Join(answers...); err != nil {
			t.Errorf("%s stayed, and yet was refused in between: %v", word, err)
		}
	}
	if stayed == 0 || moved == 0 {
		t.Errorf("%d words stayed and %d moved: the partitions did not divide", stayed, moved)
	}
}
