package work

import (
	"bytes"

	"github.com/millrace-io/millrace/record"
)

// Message is one input record: its partition, key (nil in lines), value, and milliseconds since the epoch.
type Message struct {
	Partition  int32
	Key, Value []byte
	Timestamp  int64
}

// Draw is how keys are drawn.
type Draw uint8

const (
	// Zipf draws by Zipf's law, Uniform each key as often as another, InTurn one after the other.
	Zipf Draw = iota
	Uniform
	InTurn
)

// Input is a topic and what is in it. Its records are one millisecond apart.
type Input struct {
	Topic      string
	Partitions int32
	// Compression is the batches' codec by Kafka's name; empty for none.
	Compression string
	// Draw is how its keys come, Keys how many there are to draw from. In turn, each comes Rounds times, so that their
	// number follows from the records'.
	Draw         Draw
	Keys, Rounds int
	// ValueBytes is the length of each value. Lines have no key and ten words as their value instead, in turn over the
	// partitions.
	ValueBytes int
	Lines      bool
	// Placed puts a key where Kafka's default partitioner does, so that its owner can be found. Else a key's number decides.
	Placed bool
}

// begin is the timestamp of the first record: 2026-01-01. A fixed time keeps the bytes the same; a past one is never refused.
const begin = 1767225600000

// Compressed is the same input in compressed batches.
func (in Input) Compressed(codec string) Input {
	in.Topic, in.Compression = in.Topic+"-"+codec, codec
	return in
}

// KeyCount is the number of different keys that n records may have.
func (in Input) KeyCount(n int) int {
	if in.Draw == InTurn {
		return n / in.Rounds
	}
	return in.Keys
}

// Messages hands out n records (of keys in turn, the whole rounds of them). The slices of a Message are valid during the
// call only.
func (in Input) Messages(n int, each func(Message) error) error {
	next := in.draws(n)
	if in.Lines {
		return in.lines(n, next, each)
	}
	value := bytes.Repeat([]byte("x"), in.ValueBytes)
	var key []byte
	for i := range n {
		w := next(i)
		key = AppendWord(key[:0], w)
		if err := each(Message{in.partition(w, key), key, value, begin + int64(i)}); err != nil {
			return err
		}
	}
	return nil
}

func (in Input) partition(word int, key []byte) int32 {
	if in.Placed {
		return record.Partition(key, in.Partitions)
	}
	return int32(word % int(in.Partitions))
}

func (in Input) lines(n int, next func(int) int, each func(Message) error) error {
	var line []byte
	for i := range n {
		line = line[:0]
		for j := range WordsPerLine {
			if j > 0 {
				line = append(line, ' ')
			}
			line = AppendWord(line, next(i))
		}
		if err := each(Message{int32(i % int(in.Partitions)), nil, line, begin + int64(i)}); err != nil {
			return err
		}
	}
	return nil
}

// draws returns what draws the next word number; it is given the record's.
func (in Input) draws(n int) func(i int) int {
	switch in.Draw {
	case InTurn:
		keys := in.KeyCount(n)
		return func(i int) int { return i % keys }
	case Uniform:
		r := newRandom()
		return func(int) int { return int(r.float() * float64(in.Keys)) }
	}
	words := NewWords()
	return func(int) int { return words.Next() }
}
