package work

import (
	"sort"
	"strconv"
)

// Keys is the number of different words that Zipf's law draws from.
const Keys = 100_000

// Partitions is the number of partitions of every topic, unless a job says otherwise.
const Partitions = 4

// WordsPerLine is the number of words in a line.
const WordsPerLine = 10

// random is the 48-bit linear congruential generator that Java's Random specifies, so that a Java program can draw the same.
type random struct{ state uint64 }

const multiplier, increment, mask = 0x5DEECE66D, 0xB, 1<<48 - 1

// newRandom starts at the benchmark's seed, 42.
func newRandom() *random { return &random{(42 ^ multiplier) & mask} }

func (r *random) bits(n int) uint64 {
	r.state = (r.state*multiplier + increment) & mask
	return r.state >> (48 - n)
}

// float is Java's nextDouble: at least 0 and less than 1.
func (r *random) float() float64 { return float64(r.bits(26)<<27+r.bits(27)) / (1 << 53) }

// Words draws word numbers that follow Zipf's law with exponent 1.
type Words struct {
	cumulative []float64
	random     *random
}

// NewWords starts at the beginning: two of them draw the same words.
func NewWords() *Words {
	w := &Words{cumulative: make([]float64, Keys), random: newRandom()}
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

// Next draws a word number, 0 the most frequent.
func (w *Words) Next() int {
	return min(sort.SearchFloat64s(w.cumulative, w.random.float()), Keys-1)
}

// AppendWord appends the text of a word.
func AppendWord(b []byte, word int) []byte {
	return strconv.AppendInt(append(b, "word"...), int64(word), 10)
}
