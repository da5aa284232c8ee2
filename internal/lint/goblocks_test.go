package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// What a block of Go in a document may be: declarations, statements, or elements of a list.
var goForms = [][2]string{{"", ""}, {"func _() {\n", "}\n"}, {"var _ = []any{\n", "}\n"}}

// Each block of Go in a document can be pasted into a program. TestDocumentsShowTheExamples lets a document leave out what is
// between two blank lines; without this a blank line in a call would do, and what is shown would be no Go.
func TestDocumentsShowGo(t *testing.T) {
	blocks := 0
	for path, text := range documents(t) {
		for _, block := range strings.Split(text, "```go\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			blocks++
			if fault := goFault(block); fault != "" {
				t.Errorf("%s: %s:\n%s", path, fault, block)
			}
		}
	}
	if blocks < 15 {
		t.Errorf("only %d blocks were found", blocks)
	}
}

func TestGoFault(t *testing.T) {
	for block, want := range map[string]string{
		"x := f(a,\n\tb)\n\nreturn x\n":                  "",
		"var x int\n\nfunc f() {\n\tg()\n\n\th()\n}\n":   "",
		"f(a),\ng(b),\n":                                 "",
		"x, err := f(a,\n\nif err != nil {\n}\n":         "it is no Go",
		"x := f(a,\n\n\tb)\n":                            "a blank line cuts an expression",
		"f(a),\n\ng(b),\n":                               "a blank line cuts an expression",
		"x := y{\n\ta: 1,\n\n\tb: 2,\n}\n":               "a blank line cuts an expression",
		"go func() {\n\tf()\n\n\tg()\n}()\nreturn nil\n": "",
	} {
		if got := goFault(block); got != want {
			t.Errorf("%q: %q, want %q", block, got, want)
		}
	}
}

// goFault says what is wrong with a block of Go, or nothing.
func goFault(block string) string {
	for _, form := range goForms {
		text := "package p\n" + form[0] + block + form[1]
		if f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution); err == nil {
			return cutFault(f, text)
		}
	}
	return "it is no Go"
}

// cutFault says whether a blank line is inside an expression. One between declarations, statements or fields is not. The file
// is the only one of its set, so that a position is an offset and one.
func cutFault(f *ast.File, text string) string {
	for at := range len(text) - 1 {
		if text[at:at+2] != "\n\n" {
			continue
		}
		switch innermost(f, token.Pos(at+2)).(type) {
		case *ast.File, *ast.GenDecl, *ast.BlockStmt, *ast.CaseClause, *ast.CommClause, *ast.FieldList:
		default:
			return "a blank line cuts an expression"
		}
	}
	return ""
}

// innermost is the smallest node around a position.
func innermost(f *ast.File, pos token.Pos) (found ast.Node) {
	found = f
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || pos < n.Pos() || n.End() <= pos {
			return n == f
		}
		found = n
		return true
	})
	return found
}
