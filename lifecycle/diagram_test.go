package lifecycle

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write docs/lifecycle.md from the tables")

const page = "../docs/lifecycle.md"

// docs/lifecycle.md shows the tables as they are. The text between a begin and an end marker belongs to the tables, the
// rest to whoever writes the page. After a change of a table: go test ./lifecycle -rewrite, and read the difference.
func TestLifecyclePageShowsTheTables(t *testing.T) {
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	after := string(before)
	for _, d := range []struct{ kind, diagram string }{
		{ThreadTable.Kind, ThreadTable.Diagram()},
		{NodeTable.Kind, NodeTable.Diagram()},
		{TaskTable.Kind, TaskTable.Diagram()},
		{StoreTable.Kind, StoreTable.Diagram()},
	} {
		after = replaceBetween(t, after, "<!-- begin "+d.kind+" -->\n", "<!-- end "+d.kind+" -->", "```mermaid\n"+d.diagram+"```\n")
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(before), after); diff != "" {
		t.Errorf("docs/lifecycle.md differs from the tables; run go test ./lifecycle -rewrite:\n%s", diff)
	}
}

func replaceBetween(t *testing.T, text, begin, end, middle string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/lifecycle.md lacks the markers %q and %q", begin, end)
	}
	return head + begin + middle + end + tail
}
