package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/bench/raw"
)

// check reads a run's output topic and compares it with what the input must give. It returns the number of output
// records; its error names the first key that is wrong.
func check(c *raw.Client, a assignment) (outputs int64, err error) {
	want := a.job.Expected(a.records)
	got := map[string]int64{}
	add := lastValue
	if a.job.Name == "pass" {
		add = capitals
	}
	err = c.Read(a.out, func(_ int32, key, value []byte) error {
		outputs++
		return add(got, key, value)
	})
	if err != nil {
		return 0, err
	}
	if err := compare(got, want); err != nil {
		return 0, fmt.Errorf("the output is wrong: %w", err)
	}
	return outputs, nil
}

// lastValue keeps the count that a key was last given.
func lastValue(got map[string]int64, key, value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("the count of %q has %d bytes, not 8", key, len(value))
	}
	got[string(key)] = int64(binary.BigEndian.Uint64(value))
	return nil
}

var capital = bytes.Repeat([]byte("X"), 100)

// capitals counts records per key whose value is the input's in capital letters.
func capitals(got map[string]int64, key, value []byte) error {
	if !bytes.Equal(value, capital) {
		return fmt.Errorf("a record of %q came out as %q", key, value)
	}
	got[string(key)]++
	return nil
}

func compare(got, want map[string]int64) error {
	for key, n := range want {
		if got[key] != n {
			return fmt.Errorf("%q is %d and should be %d", key, got[key], n)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			return fmt.Errorf("%q is not in the input", key)
		}
	}
	return nil
}
