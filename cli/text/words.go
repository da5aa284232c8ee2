package text

import (
	"iter"
	"strings"
)

// lower maps an ASCII letter to its lower case and every other byte to 0.
var lower = func() (table [256]byte) {
	for c := 'a'; c <= 'z'; c++ {
		table[c] = byte(c)
		table[c-'a'+'A'] = byte(c)
	}
	return table
}()

// Words yields the words of a text in order, lower-cased. The words share the memory of line if it has no upper-case
// letter, and else of one lower-cased copy: there is at most one allocation for a line, and none for a word.
func Words(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		line := toLower(line)
		for i := 0; i < len(line); i++ {
			if lower[line[i]] == 0 {
				continue
			}
			start := i
			for i++; i < len(line) && lower[line[i]] != 0; i++ {
			}
			if !yield(line[start:i]) {
				return
			}
		}
	}
}

// toLower lowers ASCII letters only. strings.ToLower is not it: it maps the Kelvin sign to an ASCII k, which would make a
// word out of a character that is none, and it replaces bytes that are not UTF-8.
func toLower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return lowered(s, i)
		}
	}
	return s
}

// lowered is s with the upper-case letters from byte i on lowered.
func lowered(s string, i int) string {
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		c := s[i]
		if l := lower[c]; l != 0 {
			c = l
		}
		b.WriteByte(c)
	}
	return b.String()
}
