package realkafka

import (
	"slices"
	"strings"
	"testing"
)

func TestPropertiesFollowTheNumberOfBrokers(t *testing.T) {
	for _, test := range []struct {
		brokers          int
		voters, replicas string
	}{
		{1, "1@127.0.0.1:9", "1"},
		{2, "1@127.0.0.1:9,2@127.0.0.1:9", "1"},
		{3, "1@127.0.0.1:9,2@127.0.0.1:9,3@127.0.0.1:9", "3"},
	} {
		c := &Cluster{dir: "d"}
		for range test.brokers {
			c.nodes = append(c.nodes, &node{port: 8, controllerPort: 9})
		}
		lines := c.properties(test.brokers)
		for _, want := range []setting{
			{"controller.quorum.voters", test.voters},
			{"offsets.topic.replication.factor", test.replicas},
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("%d brokers: no line %v", test.brokers, want)
			}
		}
	}
}

// A later line wins in a properties file, so an override must come last.
func TestSettingOverrides(t *testing.T) {
	c := &Cluster{nodes: []*node{{}}}
	Setting("auto.create.topics.enable", "true")(&c.options)
	text := render(c.properties(1))
	if strings.LastIndex(text, "auto.create.topics.enable=true") < strings.LastIndex(text, "auto.create.topics.enable=false") {
		t.Errorf("the override is not the last word:\n%s", text)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != 20 {
		t.Errorf("a port was drawn twice: %v", ports)
	}
}

func TestClusterIDsDiffer(t *testing.T) {
	a, b := clusterID(), clusterID()
	if a == b || len(a) != 22 || strings.HasPrefix(a, "-") {
		t.Errorf("cluster ids %q and %q", a, b)
	}
}
