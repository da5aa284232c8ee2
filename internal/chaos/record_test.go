package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/record"
)

// What the feeder writes is read back as what it has in its books, with ids that never repeat and positive amounts, and
// what is keyed is in the partition of its key.
func TestInputsAreReadBackAsTheyAreInTheBooks(t *testing.T) {
	f := newFeeder(nil, 5, 100)
	ids := map[string]bool{}
	for _, c := range f.columns {
		for range 200 {
			in := c.next(1_000_000)
			raw := c.raw(in)
			back, err := c.job.readInput(c.tp.Partition, &raw)
			if err != nil || fmt.Sprint(back) != fmt.Sprint(in) {
				t.Fatalf("%v is read back as %v: %v", in, back, err)
			}
			if ids[in.ID] || in.ID == "" {
				t.Fatalf("id %q is not unique", in.ID)
			}
			ids[in.ID] = true
			for _, a := range in.Adds {
				if a.Amount < 1 {
					t.Fatalf("%v adds nothing", in)
				}
			}
			if raw.Key != nil && record.Partition(raw.Key, partitions) != c.tp.Partition {
				t.Fatalf("%s does not belong into %s", raw.Key, c.tp)
			}
		}
	}
}

func TestInputsAreAFunctionOfTheSeed(t *testing.T) {
	a, b, other := newFeeder(nil, 5, 100), newFeeder(nil, 5, 100), newFeeder(nil, 6, 100)
	for i := range a.columns {
		x, y, z := a.columns[i].next(0), b.columns[i].next(0), other.columns[i].next(0)
		if fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("one seed gives %v and %v", x, y)
		}
		if fmt.Sprint(x.Adds) == fmt.Sprint(z.Adds) {
			t.Errorf("two seeds give %v", x.Adds)
		}
	}
}

func TestChangelogsFold(t *testing.T) {
	j := jobs[0]
	entries := map[string]oracle.Entry{}
	count := func(key string, n byte) record.Raw {
		return record.Raw{Key: []byte(key), Value: []byte{0, 0, 0, 0, 0, 0, 0, n}, Timestamp: int64(n)}
	}
	for _, r := range []record.Raw{count("a", 1), count("b", 1), count("a", 2), {Key: []byte("b")}} {
		if err := j.fold(entries, 0, &r); err != nil {
			t.Fatal(err)
		}
	}
	want := oracle.Entry{Key: "a", Value: oracle.Value{Sum: 2}, Timestamp: 2}
	if len(entries) != 1 || entries["a"] != want {
		t.Errorf("got %v", entries)
	}
	if err := j.fold(entries, 0, &record.Raw{Key: []byte("a"), Value: []byte("short")}); err == nil {
		t.Error("a value that is not a count is taken")
	}
}

// A record that no input explains has no id, and is not an error: the oracle refuses it.
func TestOutputsOfNobodyAreRead(t *testing.T) {
	r := record.Raw{Key: []byte("k"), Value: []byte(`{"Sum":5,"Count":2,"Last":"x"}`), Timestamp: 3, Offset: 8}
	out, err := jobs[1].readOutput(2, &r)
	want := oracle.Output{Entry: oracle.Entry{Key: "k", Value: oracle.Value{Sum: 5, Count: 2, Last: "x"}, Timestamp: 3}, Partition: 2, Offset: 8}
	if err != nil || out != want {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestBatchesKeepTheRate(t *testing.T) {
	random, n := rand.New(rand.NewPCG(1, 1)), 0
	const batches = 20_000
	for range batches {
		n += batchSize(random, 1.5)
	}
	if mean := float64(n) / batches; mean < 1.4 || mean > 1.6 {
		t.Errorf("the mean is %.2f, not 1.5", mean)
	}
}
