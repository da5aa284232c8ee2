//go:build realkafka

package realkafka_test

import (
	"bytes"
	be "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/record"
)

// once runs "millrace dev --once" to its end.
func once(t *testing.T, broker string, args ...string) (out, errs string, code int) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append([]string{"dev", "--once", "--brokers", broker, "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its exit code is in ProcessState
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// text writes a file to count.
func text(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// topicsOf are the topics of a cluster that are not Kafka's own.
func topicsOf(t *testing.T, c *realkafka.Cluster) (names []string) {
	t.Helper()
	all, err := c.Topics(t.Context(), "--list")
	if err != nil {
		t.Fatal(err, all)
	}
	for name := range strings.FieldsSeq(all) {
		if !strings.HasPrefix(name, "__") {
			names = append(names, name)
		}
	}
	return names
}

// A count under an id that nobody chose leaves no topic on a real cluster, and no member and no offset in its group.
func TestBinaryOnceLeavesNothingOnTheCluster(t *testing.T) {
	c := realkafka.For(t, 1)
	broker, input := c.Brokers()[0], text(t, "b a b\n")
	out, errs, code := once(t, broker, "--input", input)
	if code != 0 || out != "a\t1\nb\t2\n" {
		t.Fatalf("code %d, %q: %s", code, out, errs)
	}
	if left := topicsOf(t, c); len(left) > 0 {
		t.Errorf("these topics are left: %q", left)
	}
	groups, err := c.Groups(t.Context(), "--describe", "--all-groups")
	if err != nil && !strings.Contains(groups, "does not exist") {
		t.Fatal(err, groups)
	}
	if strings.Contains(groups, "-lines") || strings.Contains(groups, "-words") {
		t.Errorf("its group still has offsets:\n%s", groups)
	}

	state := t.TempDir()
	for range 2 { // with a name everything stays, and the second count goes on from there
		if out, errs, code := once(t, broker, "--input", input, "--app", "kept", "--state-dir", state); code != 0 || out != "a\t1\nb\t2\n" {
			t.Fatalf("code %d, %q: %s", code, out, errs)
		}
	}
	if left := topicsOf(t, c); len(left) != 5 {
		t.Errorf("an application with a name has the topics %q", left)
	}
	resetAndCountAgain(t, c, "kept", state, input, "a\t1\nb\t2\n")
}

// A changelog that was deleted and made anew, with more records than the stored offset, is another one, although its name
// and its length fit (H9).
func TestH9BinaryTellsARecreatedChangelog(t *testing.T) {
	c := realkafka.For(t, 1)
	broker, input, state := c.Brokers()[0], text(t, "old older oldest\n"), t.TempDir()
	if _, errs, code := once(t, broker, "--input", input, "--app", "recreated", "--state-dir", state); code != 0 {
		t.Fatal(errs)
	}
	for _, args := range [][]string{
		{"--delete", "--topic", "recreated-counts-changelog"},
		{"--create", "--topic", "recreated-counts-changelog", "--partitions", "4", "--config", "cleanup.policy=compact"},
	} {
		if out, err := c.Topics(t.Context(), args...); err != nil {
			t.Fatal(err, out)
		}
	}
	fillChangelog(t, broker, "recreated-counts-changelog")
	out, errs, code := once(t, broker, "--input", input, "--app", "recreated", "--state-dir", state)
	var want strings.Builder
	for i := range newWords {
		fmt.Fprintf(&want, "%s\t%d\n", newWord(i), i+1)
	}
	if code != 0 || out != want.String() || !strings.Contains(errs, "moved aside") {
		t.Fatalf("code %d: %s\n%s", code, out, errs)
	}
}

const newWords = 100

func newWord(i int) string { return string([]byte{'w', 'a' + byte(i/10), 'a' + byte(i%10)}) }

// fillChangelog writes newWords counts as a store would: the i-th word has the count i + 1.
func fillChangelog(t *testing.T, broker, topic string) {
	t.Helper()
	createTopics(t, []string{broker}, work.Partitions, topic)
	counts := map[int32][]record.Raw{}
	for i := range newWords {
		key := []byte(newWord(i))
		p := record.Partition(key, work.Partitions)
		counts[p] = append(counts[p], record.Raw{Key: key, Value: be.BigEndian.AppendUint64(nil, uint64(i+1)), Timestamp: 1})
	}
	write(t, broker, topic, counts)
}
