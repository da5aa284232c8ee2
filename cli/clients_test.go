package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// The settings of single clients reach the node, which takes what the command line takes, and refuses what it refuses.
func TestClientSettingsAreTheNodes(t *testing.T) {
	for _, c := range []struct {
		clientSettings
		wrong bool
	}{
		{clientSettings{100 * time.Millisecond, 20 * time.Millisecond, "none"}, false},
		{clientSettings{10 * time.Second, time.Second, "zstd"}, false},
		{clientSettings{10*time.Second + 1, time.Second, "none"}, true},
		{clientSettings{time.Second, time.Second + 1, "none"}, true},
		{clientSettings{0, time.Second, "none"}, true},
		{clientSettings{time.Second, 0, "none"}, true},
	} {
		topo, err := testApp().build("app")
		if err != nil {
			t.Fatal(err)
		}
		node := millrace.Check("app", topo, slices.Concat(c.options(), []millrace.Option{millrace.WithStateDir(t.TempDir())})...)
		if (c.clientSettings.check() != nil) != c.wrong || (node != nil) != c.wrong {
			t.Errorf("%+v: %v, %v", c.clientSettings, c.clientSettings.check(), node)
		}
	}
}
