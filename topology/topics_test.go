package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/millrace-io/millrace/topology"
)

// What others make and what nodes make is told apart, each topic once: the global store's and that of dead letters are not
// among the sources and sinks.
func TestTopicsOfOthersAndOwn(t *testing.T) {
	b := shop()
	b.AddGlobalStore(countries)
	b.OnProcessingError(func(ErrorContext, error) Response { return DeadLetter })
	b.DeadLetterTopic("dead")
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	top = top.Bind("shop")
	if d := cmp.Diff([]string{"in", "out", "numbers", "second", "third", "countries", "dead"}, top.ExternalTopics()); d != "" {
		t.Error(d)
	}
	want := []string{"shop-regions-repartition", "shop-counts-changelog", "shop-strs-changelog"}
	if d := cmp.Diff(want, top.InternalTopics("shop")); d != "" {
		t.Error(d)
	}
}
