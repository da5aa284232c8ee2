package work

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
)

// Answer is what an output topic holds, in the form in which two of them are compared: for jobs that count, the last value
// of each key; for the others, how often each key came, and a sum of hashes of the values. Keys are slots, not texts: a run
// over ten million keys is checked in seconds.
type Answer struct {
	job   Job
	keys  int
	slots []int64
	sum   uint64
}

// seed is one for the process: answers are compared within it.
var seed = maphash.MakeSeed()

// Empty is the answer of an output topic without records, for n input records.
func (j Job) Empty(n int) *Answer {
	a := &Answer{job: j, keys: j.Input.KeyCount(n)}
	slots := a.keys
	if j.Does == "windows" {
		slots *= int(window(begin+int64(n)) + 1)
	}
	a.slots = make([]int64, slots)
	return a
}

// Expected is the answer that a correct run over n input records gives.
func (j Job) Expected(n int) (*Answer, error) {
	a := j.Empty(n)
	var upper []byte
	err := j.Input.Messages(n, func(m Message) error {
		switch j.Does {
		case "pass":
			upper = append(upper[:0], m.Value...)
			return a.came(m.Key, Upper(upper))
		case "map":
			if Keep(m.Key) {
				return a.came(m.Key, m.Value[:Kept])
			}
			return nil
		case "windows":
			return a.count(m.Key, window(m.Timestamp))
		case "words":
			for word := range bytes.SplitSeq(m.Value, []byte(" ")) {
				if err := a.count(word, 0); err != nil {
					return err
				}
			}
			return nil
		}
		return a.count(m.Key, 0)
	})
	return a, err
}

// Take takes up a record of the output.
func (a *Answer) Take(key, value []byte) error {
	if !a.job.Stateful() {
		return a.came(key, value)
	}
	w := int64(0)
	if a.job.Does == "windows" {
		if len(key) < 8 {
			return fmt.Errorf("the key %q has no window", key)
		}
		w = window(int64(binary.BigEndian.Uint64(key[len(key)-8:])))
		key = key[:len(key)-8]
	}
	if len(value) != 8 {
		return fmt.Errorf("the count of %q has %d bytes, not 8", key, len(value))
	}
	slot, err := a.slot(key, w)
	if err == nil {
		a.slots[slot] = int64(binary.BigEndian.Uint64(value))
	}
	return err
}

func (a *Answer) came(key, value []byte) error {
	a.sum += maphash.Bytes(seed, value)
	return a.count(key, 0)
}

func (a *Answer) count(key []byte, window int64) error {
	slot, err := a.slot(key, window)
	if err == nil {
		a.slots[slot]++
	}
	return err
}

// slot is where a key's figure is. Records without a key have the first.
func (a *Answer) slot(key []byte, window int64) (int, error) {
	number := 0
	if !a.job.Input.Lines || a.job.Does == "words" {
		digits, ok := bytes.CutPrefix(key, []byte("word"))
		n, err := strconv.Atoi(string(digits))
		if !ok || err != nil || n < 0 || n >= a.keys {
			return 0, fmt.Errorf("%q is not in the input", key)
		}
		number = n
	} else if key != nil {
		return 0, fmt.Errorf("a record has the key %q, and none of the input has one", key)
	}
	slot := int(window)*a.keys + number
	if window < 0 || slot >= len(a.slots) {
		return 0, fmt.Errorf("%q is not in the input in window %d", key, window)
	}
	return slot, nil
}

// Compare returns an error that names the first key that is not as in want.
func (a *Answer) Compare(want *Answer) error {
	for slot, n := range want.slots {
		if got := a.slots[slot]; got != n {
			return fmt.Errorf("%s is %d and should be %d", a.name(slot), got, n)
		}
	}
	if a.sum != want.sum {
		return fmt.Errorf("every key came as often as it should, but some values are wrong")
	}
	return nil
}

func (a *Answer) name(slot int) string {
	name := strconv.Quote(string(AppendWord(nil, slot%a.keys)))
	if a.job.Does == "windows" {
		name += fmt.Sprintf(" in window %d", slot/a.keys)
	}
	return name
}

// window is the number of the window that a timestamp is in, from the first record's on.
func window(timestamp int64) int64 {
	const size = int64(WindowSize / 1e6)
	return timestamp/size - begin/size
}

// Keep is the filter of the job map: keys that end in an even digit. Kept is how many bytes of a value it keeps.
func Keep(key []byte) bool { return len(key) > 0 && key[len(key)-1]%2 == 0 }

// Kept is how many bytes of a value the job map keeps.
const Kept = 10

// Upper turns ASCII letters into capitals in place, eight bytes at a time, and returns the slice. Byte by byte it would cost
// more than the raw client needs for the rest of a record, and be most of the ceiling.
func Upper(b []byte) []byte {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		low := x &^ high
		// The high bit of each byte of these says that its low seven bits are at least 'a', and above 'z'.
		atLeastA, aboveZ := low+(0x80-'a')*ones, low+(0x7f-'z')*ones
		binary.LittleEndian.PutUint64(b[i:], x^((atLeastA^aboveZ)&^x&high)>>2)
	}
	for ; i < len(b); i++ {
		if 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return b
}
