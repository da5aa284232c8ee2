package lint

import (
	"bytes"
	"go/ast"
	"slices"
	"testing"
)

const (
	fileLines     = 600
	functionLines = 70
	medianLines   = 10
)

// long are functions above the limit, by room and name, each with the reason.
var long = map[string]string{}

// A file holds one noun and fits in a head.
func TestFileLength(t *testing.T) {
	for _, s := range parsed(t).goes {
		if n := bytes.Count(s.text, []byte("\n")); n > fileLines && !s.generated {
			t.Errorf("%s has %d lines: the limit is %d", s.path, n, fileLines)
		}
	}
}

// No function is above 70 lines, and half of those that are not tests are under 10.
func TestFunctionLength(t *testing.T) {
	tree := parsed(t)
	var all []int
	found := map[string]bool{}
	for _, s := range tree.goes {
		for _, f := range functions(s) {
			n := tree.lines(f)
			name := s.room + "." + f.Name.Name
			if _, excepted := long[name]; excepted {
				found[name] = true
			} else if n > functionLines {
				t.Errorf("%s: %s has %d lines: the limit is %d", s.path, f.Name.Name, n, functionLines)
			}
			if !s.test {
				all = append(all, n)
			}
		}
	}
	for name := range long {
		if !found[name] {
			t.Errorf("the exception for %s is not needed any more", name)
		}
	}
	slices.Sort(all)
	if median := all[len(all)/2]; median >= medianLines {
		t.Errorf("half of the %d functions have %d lines or more: the limit is %d", len(all), median, medianLines)
	}
}

func functions(s source) (all []*ast.FuncDecl) {
	if s.generated {
		return nil
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			all = append(all, f)
		}
	}
	return all
}
