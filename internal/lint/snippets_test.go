package lint

import (
	"strings"
	"testing"
)

// shown are the documents whose Go is shown as it is in examples/, where it compiles and is tested.
var shown = []string{"docs/start.md", "docs/howto.md", "docs/from-kafka-streams.md", "docs/from-goka.md"}

// Each block of Go in these documents is a stretch of an example, but for its indentation. Parts that a blank line separates
// follow each other there, with anything between them.
func TestDocumentsShowTheExamples(t *testing.T) {
	texts := documents(t)
	var examples []string
	for _, s := range parsed(t).goes {
		if within(s.room, "examples") {
			examples = append(examples, flat(string(s.text)))
		}
	}
	blocks := 0
	for _, path := range shown {
		for _, block := range strings.Split(texts[path], "```go\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			blocks++
			found := false
			for _, text := range examples {
				found = found || inOrder(text, flat(block))
			}
			if !found {
				t.Errorf("%s shows what is in no example:\n%s", path, block)
			}
		}
	}
	if blocks < 8 {
		t.Errorf("only %d blocks were found in %v", blocks, shown)
	}
}

// flat is text without indentation.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
