package main

import (
	"fmt"

	"github.com/millrace-io/millrace/bench/work"
)

// check reads a run's output topic and compares it with what the input must give. It returns the number of output
// records; its error names the first key that is wrong.
func (b *bench) check(a assignment) (outputs int64, err error) {
	want, err := b.expected(a.job, a.records)
	if err != nil {
		return 0, err
	}
	got := a.job.Empty(a.records)
	err = b.client.Read(a.out, func(_ int32, key, value []byte) error {
		outputs++
		return got.Take(key, value)
	})
	if err == nil {
		err = got.Compare(want)
	}
	if err != nil {
		return 0, fmt.Errorf("the output is wrong: %w", err)
	}
	return outputs, nil
}

// expected is the answer of a job, which is worked out once.
func (b *bench) expected(j work.Job, records int) (*work.Answer, error) {
	if b.answers[j.Name] == nil {
		answer, err := j.Expected(records)
		if err != nil {
			return nil, err
		}
		b.answers[j.Name] = answer
	}
	return b.answers[j.Name], nil
}
