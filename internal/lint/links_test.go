package lint

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	// linked matches a Markdown link or image and its target.
	linked = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// heading matches a heading; quoted matches what is code and therefore no link.
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *$`)
	quoted  = regexp.MustCompile("`[^`]*`")
	// target matches a link within a heading, of which the text alone counts.
	target = regexp.MustCompile(`\]\([^)]*\)|\[`)
)

// Links within the repository lead to a file, and to a heading of it if they name one.
func TestLinksLeadSomewhere(t *testing.T) {
	texts, links, anchors := documents(t), 0, 0
	for from, text := range texts {
		for _, link := range linksOf(text) {
			links++
			if strings.Contains(link, "#") {
				anchors++
			}
			if problem := broken(texts, from, link); problem != "" {
				t.Errorf("%s links to %s: %s", from, link, problem)
			}
		}
	}
	if links < 60 || anchors == 0 {
		t.Fatalf("only %d links, %d of them to headings, were found: the expressions match too little", links, anchors)
	}
}

// linksOf are the targets of a document's links within the repository, in order.
func linksOf(text string) (links []string) {
	eachLine(text, func(line string) {
		for _, m := range linked.FindAllStringSubmatch(quoted.ReplaceAllString(line, "code"), -1) {
			if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
				links = append(links, m[1])
			}
		}
	})
	return links
}

// eachLine calls f for each line that is in no block of code.
func eachLine(text string, f func(line string)) {
	code := false
	for line := range strings.Lines(text) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(line, "```"):
			code = !code
		case !code:
			f(line)
		}
	}
}

// broken says what is wrong with a link of a document, or nothing.
func broken(texts map[string]string, from, link string) string {
	file, anchor, named := strings.Cut(link, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if strings.HasPrefix(file, "/") || strings.HasPrefix(to, "../") {
		return "it leaves the repository"
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return "there is no such file"
	}
	if !named {
		return ""
	}
	text, ok := texts[to]
	if !ok {
		return "it names a heading of what is no document"
	}
	if !anchorsOf(text)[anchor] {
		return "there is no such heading"
	}
	return ""
}

// anchorsOf are the names that GitHub gives a document's headings: small letters, digits, hyphens and underscores, with
// hyphens for spaces, and a number behind one that is there already.
func anchorsOf(text string) map[string]bool {
	anchors, times := map[string]bool{}, map[string]int{}
	eachLine(text, func(line string) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, target.ReplaceAllString(m[1], ""))
		n := times[name]
		if times[name]++; n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		anchors[name] = true
	})
	return anchors
}

// Without this, a rule that lets every link through would look like documents in order.
func TestBrokenLinksAreFound(t *testing.T) {
	texts := map[string]string{"docs/glossary.md": "# One thing\n## `Two`, and [three](b.md)!\n## One thing\n```\n# code\n```\n"}
	for link, want := range map[string]string{
		"glossary.md#one-thing": "", "#two-and-three": "", "#one-thing-1": "", "../README.md": "",
		"#code": "there is no such heading", "#one-thing-2": "there is no such heading", "missing.md": "there is no such file",
		"../LICENSE#x": "it names a heading of what is no document", "/README.md": "it leaves the repository", "../../README.md": "it leaves the repository",
	} {
		if got := broken(texts, "docs/glossary.md", link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
	if got := linksOf("see [x](a.md#b) and `[y](no.md)`, [z](https://example.org/)\n```\n[c](no.md)\n```\n![i](i.png)"); !slices.Equal(got, []string{"a.md#b", "i.png"}) {
		t.Errorf("links: %q", got)
	}
}

// Whoever begins at docs/README.md finds every page.
func TestTheIndexLinksEveryPage(t *testing.T) {
	texts := documents(t)
	links := linksOf(texts["docs/README.md"])
	for page := range texts {
		if path.Dir(page) == "docs" && page != "docs/README.md" && !slices.Contains(links, path.Base(page)) {
			t.Errorf("docs/README.md does not link %s", page)
		}
	}
}
