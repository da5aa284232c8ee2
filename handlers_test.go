package millrace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// withDeadLetters passes lines through, and fails on those that say "poison".
func withDeadLetters(t *testing.T, dead string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	b.Always(topology.Processing, topology.DeadLetter)
	b.DeadLetterTopic(dead)
	lengths := topology.FlatMap(topology.From(b, lines), func(r record.Record[string, string], emit func(record.Record[string, int64]) error) error {
		if r.Value == "poison" {
			return errors.New("this one cannot be processed")
		}
		return emit(record.New(r.Key, int64(len(r.Value)), r.Timestamp))
	})
	topology.To(lengths, out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// A dead letter is committed with the offset of its record, once, and everything else goes on.
func TestPoisonIsDeadLetteredInItsTransaction(t *testing.T) {
	c := cluster(t)
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopics(t.Context(), []kafka.TopicSpec{{Name: "dead", Partitions: 4, Replication: -1}}); err != nil {
		t.Fatal(err)
	}
	n := start(t, withDeadLetters(t, "dead"), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	feed(t, c, "a", "poison", "b", "poison", "c")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := visible(t, c, "word-counts"); len(got) != 3 {
		t.Fatalf("%d records came out, not 3", len(got))
	}
	letters := visible(t, c, "dead")
	if len(letters) != 2 {
		t.Fatalf("%d dead letters, not 2", len(letters))
	}
	for _, l := range letters {
		message, ok := l.Headers.Last("__millrace.errors.message")
		if string(l.Value) != "poison" || l.Key != nil || !ok || !strings.Contains(string(message), "cannot be processed") {
			t.Errorf("key %q, value %q, message %q", l.Key, l.Value, message)
		}
	}
}

func TestMissingDeadLetterTopicIsSaidAtTheStart(t *testing.T) {
	c := cluster(t)
	n, err := millrace.New("app", withDeadLetters(t, "nowhere"), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var missing *millrace.MissingTopicError
	if err := n.Run(t.Context()); !errors.As(err, &missing) || missing.Topic != "nowhere" || missing.Use != "sends dead letters to" {
		t.Fatal(err)
	}
}
