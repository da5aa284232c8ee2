package work

import (
	"bytes"

	"github.com/millrace-io/millrace/record"
)

// Message is one input record: its partition, key (nil in lines) and value.
type Message struct {
	Partition  int32
	Key, Value []byte
}

// filler is the value of every keyed record: 100 bytes.
var filler = bytes.Repeat([]byte("x"), 100)

// Keyed hands out n records whose keys are words and whose partition follows from the key. The slices of a Message are
// valid during the call only.
func Keyed(n int, each func(Message) error) error {
	words := NewWords()
	var key []byte
	for range n {
		w := words.Next()
		key = AppendWord(key[:0], w)
		if err := each(Message{Partition: int32(w % Partitions), Key: key, Value: filler}); err != nil {
			return err
		}
	}
	return nil
}

// Twice hands out n records: n/2 different keys in turn, and then the same once more. They lie in the partitions in which
// Kafka's default partitioner puts them, so that a key's owner can be found.
func Twice(n int, each func(Message) error) error {
	var key []byte
	for i := range n / 2 * 2 {
		key = AppendWord(key[:0], i%(n/2))
		if err := each(Message{Partition: record.Partition(key, Partitions), Key: key, Value: filler}); err != nil {
			return err
		}
	}
	return nil
}

// Lines hands out n records without a key: ten words, in turn over the partitions.
func Lines(n int, each func(Message) error) error {
	words := NewWords()
	var line []byte
	for i := range n {
		line = line[:0]
		for j := range WordsPerLine {
			if j > 0 {
				line = append(line, ' ')
			}
			line = AppendWord(line, words.Next())
		}
		if err := each(Message{Partition: int32(i % Partitions), Value: line}); err != nil {
			return err
		}
	}
	return nil
}

// Counts are how often each word occurs in the first n draws, which is what a correct count ends with: n records of
// Keyed, or n / WordsPerLine of Lines. Words that do not occur are absent.
func Counts(n int) map[string]int64 {
	words := NewWords()
	numbers := make([]int64, Keys)
	for range n {
		numbers[words.Next()]++
	}
	counts := map[string]int64{}
	for w, c := range numbers {
		if c > 0 {
			counts[string(AppendWord(nil, w))] = c
		}
	}
	return counts
}
