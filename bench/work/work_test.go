package work

import (
	"strings"
	"testing"
)

// The first doubles of Java's new Random(42), which are in its specification's reach: 0.7275636800328681 and
// 0.6832234717598454.
func TestWordsDrawAsJavaDoes(t *testing.T) {
	w := NewWords()
	for _, want := range []float64{0.7275636800328681, 0.6832234717598454} {
		if got := float64(w.bits(26)<<27+w.bits(27)) / (1 << 53); got != want {
			t.Errorf("drew %v, want %v", got, want)
		}
	}
}

// Both inputs are the same draws, so the counts of n keyed records and of n words in lines agree with Counts.
func TestCountsAreThoseOfTheInputs(t *testing.T) {
	const n = 20_000
	keyed, lines := map[string]int64{}, map[string]int64{}
	Keyed(n, func(m Message) error { keyed[string(m.Key)]++; return nil })
	Lines(n/WordsPerLine, func(m Message) error {
		for _, word := range strings.Fields(string(m.Value)) {
			lines[word]++
		}
		return nil
	})
	want := Counts(n)
	for word, c := range want {
		if keyed[word] != c || lines[word] != c {
			t.Fatalf("%s: %d keyed, %d in lines, want %d", word, keyed[word], lines[word], c)
		}
	}
	if len(keyed) != len(want) || len(lines) != len(want) {
		t.Errorf("%d and %d different words, want %d", len(keyed), len(lines), len(want))
	}
	if want["word0"] < 10*want["word99"] {
		t.Errorf("word0 %d, word99 %d: that is not Zipf's law", want["word0"], want["word99"])
	}
}
