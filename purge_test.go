package millrace_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// What is purged is what was processed and committed, in repartition topics and in no other.
func TestPurgeDeletesWhatWasProcessedFromRepartitionTopicsOnly(t *testing.T) {
	c := cluster(t)
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	feed(t, c, "a b c d e", "f g h i j", "k l m n o")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Purge(t.Context())

	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	var tps []record.TopicPartition
	for _, topic := range []string{"app-words-repartition", "lines", "app-counts-changelog", "word-counts"} {
		for p := range int32(4) {
			tps = append(tps, record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	ends, err := admin.Ends(t.Context(), tps, false)
	if err != nil {
		t.Fatal(err)
	}
	purged := int64(0)
	for tp, r := range ends {
		switch {
		case tp.Topic != "app-words-repartition" && r.Start != 0:
			t.Errorf("%s was purged up to %d", tp, r.Start)
		case tp.Topic == "app-words-repartition":
			purged += r.Start
			if r.Start != r.HighWatermark {
				t.Errorf("%s begins at %d although all of its %d offsets were processed", tp, r.Start, r.HighWatermark)
			}
		}
	}
	if purged == 0 {
		t.Error("nothing was purged")
	}
}
