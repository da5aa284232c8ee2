package work

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Course is how a job is run, and what of it is measured.
type Course uint8

const (
	// Steady runs through the whole input: the cost of a record.
	Steady Course = iota
	// Reads is Steady with point reads of the store, while it runs and after it.
	Reads
	// Restores runs through the input, deletes the state and starts again: the time to get it back.
	Restores
	// Restarts runs through the input and starts again on what is there: the time to RUNNING, cold and warm.
	Restarts
	// Shares lets two nodes run through the input: how the work divides.
	Shares
)

// Job is what a system is asked to do.
type Job struct {
	// Name is for flags and files, Title for people.
	Name, Title string
	// Does is the topology: pass, map, count, words or windows.
	Does  string
	Input Input
	// Size names the flag that says how many input records there are: records, lines, keys, large or many; twice is each of
	// the keys twice. Records, if it is not 0, is their number itself.
	Size    string
	Records int
	Course  Course
	// Guarantee is at_least_once or exactly_once, and Uncached says that every update is emitted; see Variants.
	Guarantee string
	Uncached  bool
}

var (
	keyed = Input{Topic: "keyed", Partitions: Partitions, Keys: Keys, ValueBytes: 100}
	lines = Input{Topic: "lines", Partitions: Partitions, Keys: Keys, Lines: true}
	turn  = Input{Topic: "unique", Partitions: Partitions, Draw: InTurn, Rounds: 1, ValueBytes: 100}
	twice = Input{Topic: "twice", Partitions: Partitions, Draw: InTurn, Rounds: 2, ValueBytes: 100, Placed: true}
	large = Input{Topic: "large", Partitions: Partitions, Keys: Keys, ValueBytes: 10 << 10}
	many  = Input{Topic: "many", Partitions: 200, Keys: Keys, ValueBytes: 100}
)

// Jobs are those of the matrix, in the order in which they are reported.
var Jobs = []Job{
	{Name: "pass", Title: "pass-through", Does: "pass", Input: keyed, Size: "records"},
	{Name: "map", Title: "filter and map", Does: "map", Input: keyed, Size: "records"},
	{Name: "count", Title: "keyed count, Zipf", Does: "count", Input: keyed, Size: "records"},
	{Name: "unique", Title: "keyed count, unique keys", Does: "count", Input: turn, Size: "keys"},
	{Name: "words", Title: "word count", Does: "words", Input: lines, Size: "lines"},
	{Name: "windows", Title: "count in windows of a minute", Does: "windows", Input: keyed, Size: "records"},
	{Name: "large", Title: "pass-through, values of 10 KiB", Does: "pass", Input: large, Size: "large"},
	{Name: "many", Title: "keyed count, 200 partitions", Does: "count", Input: many, Size: "many"},
	{Name: "lz4", Title: "pass-through of lines, lz4", Does: "pass", Input: lines.Compressed("lz4"), Size: "records"},
	{Name: "gets", Title: "point reads of a count", Does: "count", Input: twice, Size: "twice", Course: Reads},
	{Name: "restore", Title: "restore of unique keys", Does: "count", Input: turn, Size: "keys", Course: Restores},
	{Name: "start", Title: "start, cold and with state", Does: "count", Input: turn, Size: "keys", Course: Restarts},
	{Name: "nodes", Title: "keyed count on two nodes", Does: "count", Input: keyed, Size: "records", Course: Shares},
}

// WindowSize is the size of the windows of the job windows.
const WindowSize = time.Minute

// Unit is what the job's rate counts, and PerRecord how many of them an input record holds.
func (j Job) Unit() string {
	if j.Does == "words" {
		return "words"
	}
	return "records"
}

// PerRecord is how many units an input record holds.
func (j Job) PerRecord() int {
	if j.Does == "words" {
		return WordsPerLine
	}
	return 1
}

// Counted is how many records the second stage of the job must see for n input records; 0 if it has none.
func (j Job) Counted(n int) int {
	if j.Does == "words" {
		return n * WordsPerLine
	}
	return 0
}

// Stateful says that it has a store, so that it matters whether the store's updates are cached.
func (j Job) Stateful() bool { return j.Does != "pass" && j.Does != "map" }

// Key names the job and its variant.
func (j Job) Key() string {
	parts := []string{j.Name}
	if j.Guarantee != "" {
		parts = append(parts, strings.ReplaceAll(j.Guarantee, "_", " "))
	}
	if j.Uncached {
		parts = append(parts, "every update")
	}
	return strings.Join(parts, ", ")
}

// Variants are the job under each guarantee and, if it has a store, with and without caching, as caching asks: on, off. A
// course that is not Steady, and a job of Scale, runs under the last guarantee and with caching only.
func (j Job) Variants(guarantees, caching []string) (variants []Job, err error) {
	if j.Course != Steady || j.Records > 0 {
		guarantees, caching = guarantees[len(guarantees)-1:], []string{"on"}
	}
	for _, g := range guarantees {
		if g != "at_least_once" && g != "exactly_once" {
			return nil, fmt.Errorf("there is no guarantee %q: it is at_least_once or exactly_once", g)
		}
		for _, c := range caching {
			if c != "on" && c != "off" {
				return nil, fmt.Errorf("caching is not %q: it is on or off", c)
			}
			if c == "on" || j.Stateful() {
				v := j
				v.Guarantee, v.Uncached = g, c == "off"
				variants = append(variants, v)
			}
		}
	}
	return variants, nil
}

// Find returns the jobs that name stands for: one, all of the matrix, or all of scale. The error names those that there are.
func Find(name string) ([]Job, error) {
	switch name {
	case "matrix":
		return Jobs, nil
	case "scale":
		return Scale(), nil
	}
	all := append(slices.Clone(Jobs), Scale()...)
	var names []string
	for _, j := range all {
		if j.Name == name {
			return []Job{j}, nil
		}
		names = append(names, j.Name)
	}
	return nil, fmt.Errorf("there is no job %q: it is matrix, scale, or one of %s", name, strings.Join(names, ", "))
}
