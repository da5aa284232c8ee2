package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// published says that other modules can import the room, so that go doc of it is a contract.
func published(s source) bool {
	return !s.test && !s.generated && s.file.Name.Name != "main" && !within(s.room, "internal") && !within(s.room, "examples") &&
		!within(s.room, "bench") && !strings.Contains(s.room, "/internal")
}

// told are methods whose names say all there is.
var told = []string{"Error", "Unwrap", "String", "GoString"}

// What is exported has a docstring that begins with its name. In a block of constants or variables, a docstring of the block or a
// comment behind the name is enough, because they are read together.
func TestWhatIsExportedIsDocumented(t *testing.T) {
	tree, names := parsed(t), 0
	report := func(at ast.Node, name string, doc string) {
		names++
		words := strings.Fields(strings.TrimPrefix(doc, "Deprecated: "))
		if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
			words = words[1:]
		}
		if len(words) == 0 || strings.TrimRight(words[0], ",.:;'s") != strings.TrimRight(name, "s") {
			t.Errorf("%s: the docstring of %s does not begin with its name: %.60q", tree.set.Position(at.Pos()), name, doc)
		}
	}
	for _, s := range tree.goes {
		if !published(s) {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && ofExported(d) && !(d.Recv != nil && slices.Contains(told, d.Name.Name)) {
					report(d, d.Name.Name, d.Doc.Text())
				}
			case *ast.GenDecl:
				reportDeclared(d, report)
			}
		}
	}
	if names < 400 {
		t.Fatalf("only %d names were found", names)
	}
}

// reportDeclared reports the types, constants and variables of a declaration.
func reportDeclared(d *ast.GenDecl, report func(at ast.Node, name, doc string)) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				report(spec, spec.Name.Name, firstText(spec.Doc, d.Doc))
			}
		case *ast.ValueSpec:
			together := d.Lparen.IsValid() || len(spec.Names) > 1
			for _, name := range spec.Names {
				switch doc := firstText(spec.Doc, spec.Comment, d.Doc); {
				case !name.IsExported():
				case together && doc != "":
				default:
					report(spec, name.Name, doc)
				}
			}
		}
	}
}

func firstText(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := g.Text(); text != "" {
			return text
		}
	}
	return ""
}

// ofExported says that a function is no method, or one of a type that is exported.
func ofExported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return token.IsExported(name)
}

// fails matches what a docstring says about an error. What implements an interface, or is another function in short, has its
// contract there.
var fails = regexp.MustCompile(`(?i)\berrors?\b|\bfail|\bErr[A-Z]|\brefuse|\bimplements\b|Error\b|\bas the function\b|\bis (the function )?[A-Z]\w+`)

// Who returns an error says when.
func TestErrorsAreDocumented(t *testing.T) {
	tree, found := parsed(t), 0
	for _, s := range tree.goes {
		if !published(s) {
			continue
		}
		for _, f := range functions(s) {
			if !f.Name.IsExported() || !ofExported(f) || !returnsError(f.Type) || f.Recv != nil && slices.Contains(told, f.Name.Name) {
				continue
			}
			found++
			if !fails.MatchString(f.Doc.Text()) {
				t.Errorf("%s: %s returns an error and does not say when: %.80q", tree.set.Position(f.Pos()), f.Name.Name, f.Doc.Text())
			}
		}
	}
	if found < 80 {
		t.Fatalf("only %d functions were found", found)
	}
}

func returnsError(f *ast.FuncType) bool {
	if f.Results == nil {
		return false
	}
	last, ok := f.Results.List[len(f.Results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}
