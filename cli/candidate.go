package cli

import (
	"log/slog"
	"strings"

	"github.com/alecthomas/kong"
)

// candidate is a word that may stand at the cursor.
type candidate struct{ text, means string }

// What the shell completes better than we do.
var (
	anyFile      = candidate{text: ":files"}
	anyDirectory = candidate{text: ":directories"}
)

// cursor is how far the words before the one under the cursor lead.
type cursor struct {
	node *kong.Node
	// value is the flag that the next word belongs to, arguments how many the verb has been given.
	value     *kong.Flag
	arguments int
	// plain says that a -- has ended the flags, lost that there is no such verb.
	plain, lost bool
}

// candidates are the words that may stand in the place of the last one of words. stores gives the names of stores.
func candidates(root *kong.Node, words []string, stores func() []string) (out []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	words = wordsOf(words)
	at, word := cursor{node: root}, words[len(words)-1]
	for _, w := range words[:len(words)-1] {
		at.pass(w)
	}
	all := at.next(word, stores)
	for _, c := range all {
		if c == anyFile || c == anyDirectory || strings.HasPrefix(c.text, word) {
			out = append(out, c)
		}
	}
	return out
}

// wordsOf puts together what bash has taken apart: "--flag", "=", "value" and "host", ":", "port". The value of a flag that is
// under the cursor stays a word of its own, because that is all that bash replaces.
func wordsOf(words []string) (out []string) {
	last := len(words) - 1
	for i := 0; i <= last; i++ {
		switch w := words[i]; {
		case strings.Trim(w, "=:") != "" || w == "" || len(out) == 0:
			out = append(out, w)
		case w == "=" && i >= last-1 && strings.HasPrefix(out[len(out)-1], "--"):
			if i == last {
				out = append(out, "")
			}
		default:
			out[len(out)-1] += w
			if i < last {
				i++
				out[len(out)-1] += words[i]
			}
		}
	}
	return out
}

// pass goes on behind a word.
func (c *cursor) pass(word string) {
	switch {
	case c.value != nil:
		c.value = nil
	case c.plain || !strings.HasPrefix(word, "-") || word == "-":
		c.argument(word)
	case word == "--":
		c.plain = true
	case !strings.Contains(word, "="):
		if f := c.flag(word); f != nil && !f.IsBool() {
			c.value = f
		}
	}
}

// argument goes on behind a word that is no flag: down to a verb, or past an argument of one.
func (c *cursor) argument(word string) {
	for _, child := range c.node.Children {
		if child.Name == word {
			c.node = child
			return
		}
	}
	c.lost = len(c.node.Children) > 0
	c.arguments++
}

// flag is the one of a word, --long or -s; nil for none.
func (c *cursor) flag(word string) *kong.Flag {
	for _, f := range c.flags() {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

func (c *cursor) flags() (all []*kong.Flag) {
	for _, group := range c.node.AllFlags(true) {
		all = append(all, group...)
	}
	return all
}

// next is all that may follow here, whatever word begins with.
func (c *cursor) next(word string, stores func() []string) []candidate {
	name, _, assigned := strings.Cut(word, "=")
	switch {
	case c.lost:
		return nil
	case c.value != nil:
		return values(c.value.Value, "")
	case assigned && !c.plain && strings.HasPrefix(word, "--"):
		if f := c.flag(name); f != nil {
			return values(f.Value, name+"=")
		}
		return nil
	case strings.HasPrefix(word, "-") && !c.plain:
		return c.flagNames()
	}
	var all []candidate
	for _, child := range c.node.Children {
		if !child.Hidden {
			all = append(all, candidate{child.Name, child.Help})
		}
	}
	if c.arguments >= len(c.node.Positional) {
		return all
	}
	arg := c.node.Positional[c.arguments]
	if arg.Name != "store" {
		return values(arg, "")
	}
	for _, s := range stores() {
		all = append(all, candidate{s, arg.Help})
	}
	return all
}

func (c *cursor) flagNames() (all []candidate) {
	for _, f := range c.flags() {
		all = append(all, candidate{"--" + f.Name, f.Help})
		if f.Tag.Negatable != "" {
			all = append(all, candidate{"--no-" + f.Name, "Not: " + f.Help})
		}
	}
	return all
}

// values are what a flag or an argument takes, as far as that can be told, each behind a prefix.
func values(v *kong.Value, prefix string) (all []candidate) {
	var words []string
	switch _, level := v.Target.Interface().(slog.Level); {
	case v.Enum != "":
		words = v.EnumSlice()
	case level:
		words = []string{"debug", "info", "warn", "error"}
	case v.IsBool():
		words = []string{"true", "false"}
	case v.Flag == nil:
	case v.Flag.PlaceHolder == "FILE" || v.Flag.PlaceHolder == "PATH":
		return []candidate{anyFile}
	case v.Flag.PlaceHolder == "DIR":
		return []candidate{anyDirectory}
	}
	for _, w := range words {
		all = append(all, candidate{prefix + w, v.Help})
	}
	return all
}

// storesOf are the names of the application's stores. An application that cannot be built has none to tell.
func (a App) storesOf() (names []string) {
	t, err := a.build(a.Name)
	if err != nil {
		return nil
	}
	for _, sub := range t.SubTopologies {
		for _, store := range sub.Stores {
			names = append(names, store.Name)
		}
	}
	for _, global := range t.Globals {
		names = append(names, global.Name)
	}
	return names
}
