package matrix_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/matrix"
)

var rewrite = flag.Bool("rewrite", false, "write docs/queries.md from the tables")

const page = "../../docs/queries.md"

// docs/queries.md shows the tables as they are. The text between a begin and an end marker belongs to the tables, the rest
// to whoever writes the page. After a change of a table: go test ./query/matrix -rewrite, and read the difference.
func TestQueriesPageShowsTheTables(t *testing.T) {
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(before)
	for name, table := range map[string]string{"kinds": kindTable(), "matrix": matrixTable(), "proofs": proofTable()} {
		text = between(t, text, name, table)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(before), text); diff != "" {
		t.Errorf("docs/queries.md differs from the tables; run go test ./query/matrix -rewrite:\n%s", diff)
	}
}

func between(t *testing.T, text, name, middle string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/queries.md lacks the markers of %s", name)
	}
	return head + begin + middle + end + tail
}

func kindTable() string {
	var b strings.Builder
	b.WriteString("| # | kind | category | retry | what is the matter, and what to do |\n|---|---|---|---|---|\n")
	for _, k := range query.Kinds() {
		f := query.New(k, "s", 0)
		category := "retryable"
		if f.Fatal() {
			category = "fatal"
		}
		_, text, _ := strings.Cut(f.Error(), `partition 0: `)
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", k, k, category, f.Retry, text)
	}
	return b.String()
}

func matrixTable() string {
	var b strings.Builder
	b.WriteString("| # | node | situation | KIP-216 draft | adopted | Kafka Streams 4.x `store()` | Kafka Streams 4.x `query()` | Millrace |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range matrix.Rows {
		var cases []string
		for _, c := range r.Cases {
			cases = append(cases, c.Name+": "+c.Want.String())
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | **%s** (%s) |\n", r.Number, r.State, r.Situation, r.Draft, r.Adopted, r.IQv1, r.IQv2, r.Ours, strings.Join(cases, "; "))
	}
	return b.String()
}

func proofTable() string {
	var b strings.Builder
	b.WriteString("| # | id | level 1, `query/router` | level 2, root package | level 3, `internal/realkafka` |\n|---|---|---|---|---|\n")
	for _, r := range matrix.Rows {
		fmt.Fprintf(&b, "| %d | %s |", r.Number, r.ID)
		for level := 1; level <= 3; level++ {
			if p := r.At(level); p.Test != "" {
				fmt.Fprintf(&b, " %s%s |", p.Test, exceptions(&r, level))
			} else {
				fmt.Fprintf(&b, " n/a: %s |", p.NA)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func exceptions(r *matrix.Row, level int) (text string) {
	for _, e := range r.Except {
		if e.Level == level {
			text += fmt.Sprintf("; %s n/a: %s", e.Case, e.Reason)
		}
	}
	return text
}

// Every exception is of a case that there is, and leaves the row a test.
func TestExceptionsAreOfCases(t *testing.T) {
	for _, r := range matrix.Rows {
		left := map[int]int{1: len(r.Cases), 2: len(r.Cases), 3: len(r.Cases)}
		for _, e := range r.Except {
			known := false
			for _, c := range r.Cases {
				known = known || c.Name == e.Case && r.NA(e.Level, &c) == e.Reason
			}
			if left[e.Level]--; !known || e.Reason == "" || e.Level < 2 || left[e.Level] == 0 {
				t.Errorf("%s: %+v", r.ID, e)
			}
		}
	}
}

// Every row has an id that can name a test, at least one exact case, and for each level a test or a reason.
func TestRowsAreComplete(t *testing.T) {
	if len(matrix.Rows) != 22 {
		t.Fatalf("%d rows", len(matrix.Rows))
	}
	id := regexp.MustCompile(`^r\d\d-[a-z-]+$`)
	for i, r := range matrix.Rows {
		if r.Number != i+1 || !id.MatchString(r.ID) || !strings.HasPrefix(r.ID, fmt.Sprintf("r%02d-", r.Number)) {
			t.Errorf("row %d is %d, %q", i+1, r.Number, r.ID)
		}
		if len(r.Cases) == 0 || r.Ours == "" || r.Draft == "" || r.Adopted == "" || r.IQv1 == "" || r.IQv2 == "" {
			t.Errorf("%s is not complete", r.ID)
		}
		for level := 1; level <= 3; level++ {
			if p := r.At(level); (p.Test == "") == (p.NA == "") || (p.Test != "" && !strings.HasSuffix(p.Test, "/"+r.ID)) {
				t.Errorf("%s at level %d: %+v", r.ID, level, p)
			}
		}
	}
}
