package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The word count is short: that is what the operators are for. A limit counts lines with code in them; rest names the
// declarations that are not the word count.
var wordCounts = []struct {
	path  string
	limit int
	rest  []string
}{
	{"examples/wordcount/main.go", 25, []string{"main", "run"}},
	{"examples/processor/main.go", 40, []string{"main", "app"}},
}

func TestTheWordCountIsShort(t *testing.T) {
	for _, w := range wordCounts {
		s := sourceAt(t, w.path)
		n := 0
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT || withinNames(d, w.rest) {
				continue
			}
			n += codeLines(textOf(t, s, d))
		}
		if n == 0 || n > w.limit {
			t.Errorf("%s: the word count has %d lines: the limit is %d", w.path, n, w.limit)
		}
	}
	if n := strings.Count(string(sourceAt(t, "examples/wordcount/main.go").text), "\n"); n >= 80 {
		t.Errorf("the example service has %d lines: it should have under 80", n)
	}
}

// README.md shows the examples as they are: each block that builds a topology is a stretch of one of them.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "topology.") {
			continue
		}
		found := ""
		for _, w := range wordCounts {
			if inOrder(string(sourceAt(t, w.path).text), block) {
				found = w.path
			}
		}
		if shown[found] = true; found == "" {
			t.Errorf("README.md shows what is in no example:\n%s", block)
		}
	}
	for _, w := range wordCounts {
		if !shown[w.path] {
			t.Errorf("README.md does not show %s", w.path)
		}
	}
}

// inOrder says that the parts of block, which blank lines separate, are in text, one after the other.
func inOrder(text, block string) bool {
	for part := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

func sourceAt(t *testing.T, path string) source {
	t.Helper()
	for _, s := range parsed(t).goes {
		if s.path == path {
			return s
		}
	}
	t.Fatalf("there is no %s", path)
	return source{}
}

// withinNames says that a declaration is of one of the names.
func withinNames(d ast.Decl, names []string) bool {
	for _, name := range names {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == name {
					return true
				}
			}
		}
	}
	return false
}

func textOf(t *testing.T, s source, n ast.Node) string {
	set := parsed(t).set
	return string(s.text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
}

func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
