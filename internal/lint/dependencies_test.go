package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	required = regexp.MustCompile(`(?m)^\t(?:require )?(\S+) v\S+$`)
	listed   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")
	licences = []string{"MIT", "Apache-2.0", "BSD-3-Clause", "MPL-2.0"}
)

// The modules that go.mod requires directly and the table of docs/dependencies.md are the same, and each has a licence that
// this project may use, and a reason.
func TestEveryDependencyIsListed(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range required.FindAllSubmatch(module, -1) {
		want = append(want, string(m[1]))
	}
	_, table, _ := strings.Cut(documents(t)["docs/dependencies.md"], "<!-- begin dependencies -->")
	table, _, _ = strings.Cut(table, "<!-- end dependencies -->")
	for _, row := range listed.FindAllStringSubmatch(table, -1) {
		got = append(got, row[1])
		if !slices.ContainsFunc(licences, func(l string) bool { return strings.HasPrefix(row[2], l) }) || len(row[3]) < 5 {
			t.Errorf("%s: the licence is %q, the reason %q", row[1], row[2], row[3])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 10 || !slices.Equal(want, got) {
		t.Errorf("go.mod requires\n%s\nand docs/dependencies.md lists\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
