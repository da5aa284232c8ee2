//go:build realkafka

package realkafka_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/realkafka"
)

// reset runs "millrace reset" to its end.
func reset(t *testing.T, broker string, args ...string) (out string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append([]string{"reset", "--brokers", broker}, args...)...)
	cmd.Stderr = &errs
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	return string(stdout)
}

// resetAndCountAgain takes an application of "millrace dev --once" back to before its first record. A real broker deletes its
// topics a moment after it has said so, gives the names away again at once, and takes offsets for a group that is gone.
func resetAndCountAgain(t *testing.T, c *realkafka.Cluster, app, state, input, want string) {
	t.Helper()
	broker := c.Brokers()[0]
	args := []string{"--app", app, "--state-dir", state}
	var plan []struct{ Action, On, Detail string }
	if err := json.Unmarshal([]byte(reset(t, broker, append(args, "-o", "json")...)), &plan); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range plan {
		steps = append(steps, s.Action+" "+s.On)
	}
	for _, step := range []string{"set offset " + app + "-lines-0", "delete topic " + app + "-words-repartition", "delete topic " + app + "-counts-changelog",
		"delete directory " + filepath.Join(state, app)} {
		if !slices.Contains(steps, step) {
			t.Fatalf("%q is not among %q", step, steps)
		}
	}
	reset(t, broker, append(args, "--execute", "--confirm", app)...)
	if left := topicsOf(t, c); len(left) != 3 || strings.Contains(strings.Join(left, " "), "-changelog") {
		t.Errorf("these topics are left: %q", left)
	}
	if _, err := os.Stat(filepath.Join(state, app)); !os.IsNotExist(err) {
		t.Errorf("the state is still there: %v", err)
	}
	groups, err := c.Groups(t.Context(), "--describe", "--group", app)
	if err != nil || !strings.Contains(groups, app+"-lines") || strings.Contains(groups, "-repartition") {
		t.Errorf("%v: its group has other offsets than those of its source:\n%s", err, groups)
	}
	if out, errs, code := once(t, broker, append(args, "--input", input)...); code != 0 || out != want {
		t.Errorf("code %d, %q: %s", code, out, errs)
	}
}
