package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/record"
)

// job is how one job's records look on the wire, in words of the oracle.
type job struct {
	name                     string
	input, output, changelog string
	rich                     bool
	decodeInput              func(*record.Raw) ([]oracle.Add, error)
	decodeValue              func([]byte) (oracle.Value, error)
}

var jobs = []job{
	{"counts", linesTopic, countsTopic, application + "-counts-changelog", false, lineAdds, countValue},
	{"sums", amountsTopic, sumsTopic, application + "-sums-changelog", true, amountAdds, sumValue},
}

func lineAdds(r *record.Raw) (adds []oracle.Add, err error) {
	for word := range strings.FieldsSeq(string(r.Value)) {
		adds = append(adds, oracle.Add{Key: word, Amount: 1})
	}
	return adds, nil
}

func amountAdds(r *record.Raw) ([]oracle.Add, error) {
	var a amount
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return nil, err
	}
	return []oracle.Add{{Key: string(r.Key), Amount: a.Amount}}, nil
}

func countValue(b []byte) (oracle.Value, error) {
	if len(b) != 8 {
		return oracle.Value{}, fmt.Errorf("a count of %d bytes", len(b))
	}
	return oracle.Value{Sum: int64(binary.BigEndian.Uint64(b))}, nil
}

func sumValue(b []byte) (oracle.Value, error) {
	var s sum
	err := json.Unmarshal(b, &s)
	return s.value(), err
}

func id(r *record.Raw) string {
	value, _ := r.Headers.Last(idHeader) // a record without one has no input, and the oracle says so
	return string(value)
}

func (j job) readInput(p int32, r *record.Raw) (oracle.Input, error) {
	adds, err := j.decodeInput(r)
	if err != nil {
		return oracle.Input{}, fmt.Errorf("%s-%d, offset %d: %w", j.input, p, r.Offset, err)
	}
	return oracle.Input{ID: id(r), Partition: p, Timestamp: r.Timestamp, Adds: adds}, nil
}

func (j job) readOutput(p int32, r *record.Raw) (oracle.Output, error) {
	value, err := j.decodeValue(r.Value)
	if err != nil {
		return oracle.Output{}, fmt.Errorf("%s-%d, offset %d: %w", j.output, p, r.Offset, err)
	}
	return oracle.Output{Entry: oracle.Entry{Key: string(r.Key), Value: value, Timestamp: r.Timestamp}, Partition: p, Offset: r.Offset, ID: id(r)}, nil
}

// fold takes a record of a changelog up into what it says.
func (j job) fold(entries map[string]oracle.Entry, p int32, r *record.Raw) error {
	key := string(r.Key)
	if r.Value == nil {
		delete(entries, key)
		return nil
	}
	value, err := j.decodeValue(r.Value)
	if err != nil {
		return fmt.Errorf("%s-%d, offset %d: %w", j.changelog, p, r.Offset, err)
	}
	entries[key] = oracle.Entry{Key: key, Value: value, Timestamp: r.Timestamp}
	return nil
}
