package httpapi_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
)

var update = flag.Bool("update", false, "write the table of docs/remote.md")

// The table of the documentation is the table of the code.
func TestStatusTableIsDocumented(t *testing.T) {
	const path, begin, end = "../../docs/remote.md", "<!-- begin statuses -->\n", "<!-- end statuses -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| kind | status | retry |\n|---|---|---|\n")
	for _, k := range query.Kinds() {
		fmt.Fprintf(&table, "| `%s` | %d | %s |\n", k, httpapi.Status(k), k.Retry())
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("docs/remote.md has no place for the table")
	}
	want := before + begin + table.String() + end + after
	if *update {
		err = os.WriteFile(path, []byte(want), 0o600)
	}
	if err != nil || !*update && want != string(page) {
		t.Errorf("docs/remote.md is behind: run this test with -update (%v)", err)
	}
}

// Every kind has a status of its own choice; one of a newer release is not here, not now.
func TestEveryKindHasAStatus(t *testing.T) {
	for _, k := range query.Kinds() {
		if s := httpapi.Status(k); s < 400 || s > 599 || (s < 500 && s != 421 && s != 429) != (k.Retry() == query.Never) {
			t.Errorf("%v: %d with retry %v", k, s, k.Retry())
		}
	}
	if httpapi.Status(200) != 503 {
		t.Error(httpapi.Status(200))
	}
}
