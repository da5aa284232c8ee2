package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/millrace-io/millrace"

// source is one Go file of the repository.
type source struct {
	// path is relative to the module's root, with slashes; room is its directory, "." for the root package.
	path, room string
	text       []byte
	file       *ast.File
	test       bool
	generated  bool
}

// tree is the parsed repository. It is read once and never changed.
type tree struct {
	set   *token.FileSet
	goes  []source
	paths []string
}

const root = "../.."

var load = sync.OnceValues(func() (*tree, error) {
	t := &tree{set: token.NewFileSet()}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.add(path, d)
	})
	return t, err
})

// skipped are directories that hold nothing of ours: git's own, build output, results of the benchmark.
var skipped = []string{".git", "bin", "target", "tmp"}

func (t *tree) add(path string, d fs.DirEntry) error {
	rel, err := filepath.Rel(root, path)
	if err != nil || !d.Type().IsRegular() {
		return err
	}
	rel = filepath.ToSlash(rel)
	t.paths = append(t.paths, rel)
	if !strings.HasSuffix(rel, ".go") {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.set, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.goes = append(t.goes, source{
		path: rel, room: filepath.ToSlash(filepath.Dir(rel)), text: text, file: file,
		test: strings.HasSuffix(rel, "_test.go"), generated: ast.IsGenerated(file),
	})
	return nil
}

func parsed(t *testing.T) *tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.goes) < 30 {
		t.Fatalf("only %d Go files were found: the rules would hold of nothing", len(tree.goes))
	}
	return tree
}

// lines is the number of lines that a node covers, from its first to its last token.
func (t *tree) lines(n ast.Node) int {
	return t.set.Position(n.End()).Line - t.set.Position(n.Pos()).Line + 1
}
