//go:build realkafka

package realkafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
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
