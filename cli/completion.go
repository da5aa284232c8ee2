package cli

import (
	"context"
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

//go:embed shells
var shells embed.FS

type completionCmd struct {
	Shell string `arg:"" help:"Shell: bash, zsh or fish." enum:"bash,zsh,fish"`
}

// completeCmd is what the scripts call at each press of the key: the words up to the cursor, the last of them unfinished.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// typed are the words without the -- in front of them.
func (c *completeCmd) typed() []string {
	if len(c.Words) > 0 && c.Words[0] == "--" {
		return c.Words[1:]
	}
	return c.Words
}

// completion is a verb that prints a script for a shell. The script asks this binary for what may follow, so it need not be made
// again for a later version, and the three shells agree.
type completion struct {
	shell, program string
	out            io.Writer
}

var (
	// legalProgram is what stands for itself in a script.
	legalProgram = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._+-]*$`)
	noFunction   = regexp.MustCompile(`[^a-zA-Z0-9]`)
)

// programName is the command that a shell knows this program by.
func programName(path string) string {
	if path == "" {
		return "millrace"
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}

// titleOf is what a program calls itself: the name that it was started by, and Millrace's own, which "go run ./cmd/node" calls node,
// is millrace, as in all documents.
func titleOf(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.TrimSuffix(info.Path, ".test") == library+"/cmd/node" {
		return programName("")
	}
	return programName(path)
}

func (c *completion) run(context.Context) error {
	if !legalProgram.MatchString(c.program) {
		return failf(nil, "the program's name %q is no word to a shell; give it one of the characters a-z A-Z 0-9 . _ + -", c.program)
	}
	script, err := shells.ReadFile("shells/completion." + c.shell)
	if err != nil {
		return failf(err, "there is no completion for %s", c.shell)
	}
	function := "_millrace_" + noFunction.ReplaceAllString(c.program, "_")
	_, err = io.WriteString(c.out, strings.NewReplacer("FUNCTION", function, "NAME", c.program).Replace(string(script)))
	return err
}

// completing is the verb behind the scripts: a line for each word that may stand at the cursor, with what it means behind a tab.
// ":files" and ":directories" leave it to the shell.
type completing struct {
	words []candidate
	out   io.Writer
}

func (c *completing) run(context.Context) error {
	for _, w := range c.words {
		if _, err := fmt.Fprintf(c.out, "%s\t%s\n", w.text, w.means); err != nil {
			return err
		}
	}
	return nil
}
