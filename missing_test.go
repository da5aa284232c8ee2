package millrace_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
)

// A node that may not make topics names all that are missing at once, as they have to be; with exactly those it runs.
func TestNodeLeavesInternalTopicsToOthers(t *testing.T) {
	c := cluster(t)
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	options := func() []millrace.Option {
		return []millrace.Option{millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithCreateTopics(false), millrace.WithReplication(2)}
	}
	n, err := millrace.New("app", wordCount(t), options()...)
	if err != nil {
		t.Fatal(err)
	}
	err = n.Run(t.Context())
	var missing *millrace.MissingInternalTopicsError
	if !errors.As(err, &missing) || len(missing.Topics) != 2 {
		t.Fatal(err)
	}
	seed := "kafka-topics.sh --bootstrap-server " + strings.Join(c.Addrs(), ",") + " --create --topic app-"
	for _, want := range []string{
		seed + "counts-changelog --partitions 4 --replication-factor 2 --config cleanup.policy=compact --config message.timestamp.type=CreateTime; ",
		seed + "words-repartition --partitions 4 --replication-factor 2 --config cleanup.policy=delete --config message.timestamp.type=CreateTime --config retention.ms=-1 --config segment.bytes=52428800",
	} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\nhas not\n%s", err, want)
		}
	}
	if infos, err := admin.Topics(t.Context(), "app-counts-changelog", "app-words-repartition"); err != nil || len(infos) > 0 {
		t.Fatal("topics were made:", infos, err)
	}
	var specs []kafka.TopicSpec
	for _, topic := range missing.Topics {
		specs = append(specs, kafka.TopicSpec(topic))
	}
	if err := admin.CreateTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	r := start(t, wordCount(t), options()...)
	feed(t, c, "a b a")
	if err := r.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Whatever a configuration holds, a shell reads it as one word.
func TestCommandsAreQuoted(t *testing.T) {
	got := millrace.InternalTopic{Name: "t", Partitions: 1, Replication: -1, Configs: map[string]string{"x": "it's $HOME", "cleanup.policy": "compact,delete"}}.Command([]string{"a:1", "b:2"})
	if want := `kafka-topics.sh --bootstrap-server a:1,b:2 --create --topic t --partitions 1 --config cleanup.policy=compact,delete --config 'x=it'\''s $HOME'`; got != want {
		t.Errorf("%s\nand not\n%s", got, want)
	}
}
