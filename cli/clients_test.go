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
		{clientSettings{100 * time.Millisecond, 1 << 20, 20 * time.Millisecond, "none", "", 15 * time.Second}, false},
		{clientSettings{10 * time.Second, 16 << 10, time.Second, "zstd", "shop", time.Second}, false},
		{clientSettings{time.Second, 4 << 20, time.Second, "lz4", "a.b_c-1", 5 * time.Minute}, false},
		{clientSettings{10*time.Second + 1, 1 << 20, time.Second, "none", "", 15 * time.Second}, true},
		{clientSettings{time.Second, 1 << 20, time.Second + 1, "none", "", 15 * time.Second}, true},
		{clientSettings{0, 1 << 20, time.Second, "none", "", 15 * time.Second}, true},
		{clientSettings{time.Second, 1 << 20, 0, "none", "", 15 * time.Second}, true},
		{clientSettings{time.Second, 16<<10 - 1, time.Second, "none", "", 15 * time.Second}, true},
		{clientSettings{time.Second, 4<<20 + 1, time.Second, "none", "", 15 * time.Second}, true},
		{clientSettings{time.Second, 1 << 20, time.Second, "none", "a b", 15 * time.Second}, true},
		{clientSettings{time.Second, 1 << 20, time.Second, "none", "", time.Second - 1}, true},
		{clientSettings{time.Second, 1 << 20, time.Second, "none", "", 5*time.Minute + 1}, true},
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
