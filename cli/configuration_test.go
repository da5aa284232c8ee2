package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md")

const configurationPage = "../docs/configuration.md"

// verbFlags are the flags of a verb, those that help does not show too.
func verbFlags(t *testing.T, verb string) []*kong.Flag {
	t.Helper()
	parser, err := new(grammar).parser(testApp(), "millrace")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Children {
		if n.Name == verb {
			return append([]*kong.Flag{parser.Model.Flags[1]}, n.Flags...)
		}
	}
	t.Fatal("there is no verb", verb)
	return nil
}

// reference is the table of the flags of a verb that no verb before it has.
func reference(flags []*kong.Flag, known map[string]bool) string {
	var b strings.Builder
	b.WriteString("| flag | environment | YAML key | default | what it does |\n|---|---|---|---|---|\n")
	for _, f := range flags {
		if known[f.Name] {
			continue
		}
		known[f.Name] = true
		name, key, initial, help := "`--"+f.Name+"`", "`"+f.Name+"`", "", strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(f.Help)
		if f.Default != "" {
			initial = "`" + f.Default + "`"
		}
		if f.Short != 0 {
			name += fmt.Sprintf(", `-%c`", f.Short)
		}
		if f.Hidden {
			name, key, help = "", "", help+" Refused as a flag and in the file."
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, variable(f.Name), key, initial, help)
	}
	return b.String()
}

// The tables of the page are those of the program.
func TestConfigurationPageKnowsEveryFlag(t *testing.T) {
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	text, known := string(page), map[string]bool{"help": true}
	for _, verb := range []string{"run", "dev", "reset", "get"} {
		begin, end := "<!-- begin "+verb+" -->\n", "<!-- end "+verb+" -->"
		before, rest, ok1 := strings.Cut(text, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for the table of %s", configurationPage, verb)
		}
		text = before + begin + reference(verbFlags(t, verb), known) + end + after
	}
	switch {
	case text == string(page):
	case *update:
		if err := os.WriteFile(configurationPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is behind: run this test with -update", configurationPage)
	}
}
