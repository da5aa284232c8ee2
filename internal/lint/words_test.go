package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// vague matches words that say nothing about a thing.
var vague = regexp.MustCompile(`(?i:manager|helper)|Util|^util`)

func TestNames(t *testing.T) {
	tree := parsed(t)
	for _, s := range tree.goes {
		if s.generated {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, name := range declared(n) {
				// An interface that testing.TB satisfies has its Helper method; that name is not ours.
				if vague.MatchString(name.Name) && !((s.test || s.room == "millracetest") && name.Name == "Helper") {
					t.Errorf("%s: %s says nothing: name it after what it does", tree.set.Position(name.Pos()), name.Name)
				}
			}
			return true
		})
	}
}

// declared are the names that a node introduces.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		return assigned(n)
	}
	return nil
}

func assigned(n *ast.AssignStmt) (names []*ast.Ident) {
	for _, e := range n.Lhs {
		if name, ok := e.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}

// A test that sleeps is either slow or wrong: it waits for a state, an event or an injected clock instead.
func TestNoSleepInTests(t *testing.T) {
	tree := parsed(t)
	for _, s := range tree.goes {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if f, ok := n.(*ast.SelectorExpr); ok && f.Sel.Name == "Sleep" {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: wait for what is awaited, not for time to pass", tree.set.Position(f.Pos()))
				}
			}
			return true
		})
	}
}

func TestGofmt(t *testing.T) {
	for _, s := range parsed(t).goes {
		if formatted, err := format.Source(s.text); err != nil || !bytes.Equal(formatted, s.text) {
			t.Errorf("%s is not formatted: run make fmt (%v)", s.path, err)
		}
	}
}

// Every public package has a doc.go and an example that runs.
func TestDocumented(t *testing.T) {
	docs, examples, public := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range parsed(t).goes {
		public[s.room] = public[s.room] || (isPublic(s.room) && s.file.Name.Name != "main")
		docs[s.room] = docs[s.room] || (filepath.Base(s.path) == "doc.go" && s.file.Doc != nil)
		examples[s.room] = examples[s.room] || (s.test && hasExample(s))
	}
	for room, isPublic := range public {
		if isPublic && !docs[room] {
			t.Errorf("%s: no doc.go with a package comment", room)
		}
		if isPublic && !examples[room] {
			t.Errorf("%s: no Example with an Output comment", room)
		}
	}
}

// isPublic: generated code, commands, and the parts that only their own room and its tests use need no example.
func isPublic(room string) bool {
	return !withinAny(room, []string{"internal", "bench", "cmd", "examples", "query/querypb", "cli/text", "task/tasktest"})
}

func hasExample(s source) bool {
	for _, f := range functions(s) {
		if strings.HasPrefix(f.Name.Name, "Example") && bytes.Contains(s.text, []byte("// Output:")) {
			return true
		}
	}
	return false
}

// local matches what is true of one machine only: registry hosts and absolute paths of people's directories.
var local = regexp.MustCompile(`repo1?\.maven\.|proxy\.golang\.|sum\.golang\.|goproxy\.|registry\.npm|pypi\.|/(home|root|Users|work)/[a-z]`)

// Nothing in the repository depends on the machine or the mirror that it was written on.
func TestNothingLocal(t *testing.T) {
	for _, path := range parsed(t).paths {
		if !isText(path) || path == "internal/lint/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		if found := local.Find(text); found != nil {
			t.Errorf("%s contains %q, which is true of one machine only", path, found)
		}
	}
}

func isText(path string) bool {
	switch filepath.Ext(path) {
	case ".go", ".md", ".xml", ".yaml", ".yml", ".proto", ".sh", ".mod", ".txt", ".java":
		return true
	}
	return filepath.Base(path) == "Makefile" || strings.HasPrefix(path, ".ci/")
}
