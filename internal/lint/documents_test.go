package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named matches, in backquotes, what looks like a directory or a file of ours.
var named = regexp.MustCompile("`([a-z][a-zA-Z0-9_.-]*(?:/[a-zA-Z0-9_.-]+)*(?:/|\\.go|\\.md))`")

func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, path := range parsed(t).paths {
		if strings.HasSuffix(path, ".md") {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
	}
	return texts
}

// Documents name directories and files that are there.
func TestDocumentsNameWhatExists(t *testing.T) {
	paths, names := parsed(t).paths, 0
	for document, text := range documents(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			names++
			if !slices.ContainsFunc(paths, func(p string) bool { return isOrHolds("/"+p, "/"+m[1]) }) {
				t.Errorf("%s names %s, which is not there", document, m[1])
			}
		}
	}
	if names < 30 {
		t.Fatalf("only %d names were found: the expressions match too little", names)
	}
}

// isOrHolds says that path is the file named, or lies in the directory named, wherever that is.
func isOrHolds(path, name string) bool {
	if strings.HasSuffix(name, "/") {
		return strings.Contains(path, name)
	}
	return strings.HasSuffix(path, name)
}

// Every room at the top has its row in docs/architecture.md.
func TestArchitectureKnowsEveryRoom(t *testing.T) {
	text := documents(t)["docs/architecture.md"]
	for _, s := range parsed(t).goes {
		top, rest, _ := strings.Cut(s.room, "/")
		if top == "internal" || top == "cmd" {
			below, _, _ := strings.Cut(rest, "/")
			top += "/" + below
		}
		if s.room != "." && !strings.Contains(text, "`"+top+"/`") {
			t.Errorf("docs/architecture.md does not know %s", top)
		}
	}
}
