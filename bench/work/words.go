package work

import (
	"sort"
	"strconv"
)

// Keys is the number of different words.
const Keys = 100_000

// Partitions is the number of partitions of every topic of the benchmark.
const Partitions = 4

// WordsPerLine is the number of words in a line.
const WordsPerLine = 10

// Words draws word numbers that follow Zipf's law with exponent 1. The generator behind it is the 48-bit linear
// congruential one that Java's Random specifies, so that a Java program can draw the same words.
type Words struct {
	cumulative []float64
	state      uint64
}

const multiplier, increment, mask = 0x5DEECE66D, 0xB, 1<<48 - 1

// NewWords starts at the beginning: two of them draw the same words.
func NewWords() *Words {
	w := &Words{cumulative: make([]float64, Keys), state: (42 ^ multiplier) & mask}
	sum := 0.0
	for i := range w.cumulative {
		sum += 1 / float64(i+1)
		w.cumulative[i] = sum
	}
	for i := range w.cumulative {
		w.cumulative[i] /= sum
	}
	return w
}

func (w *Words) bits(n int) uint64 {
	w.state = (w.state*multiplier + increment) & mask
	return w.state >> (48 - n)
}

// Next draws a word number, 0 the most frequent.
func (w *Words) Next() int {
	u := float64(w.bits(26)<<27+w.bits(27)) / (1 << 53)
	return min(sort.SearchFloat64s(w.cumulative, u), Keys-1)
}

// AppendWord appends the text of a word.
func AppendWord(b []byte, word int) []byte {
	return strconv.AppendInt(append(b, "word"...), int64(word), 10)
}
