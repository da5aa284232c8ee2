package work

import (
	"fmt"
	"strings"
)

// Job is what a system is asked to do.
type Job struct {
	// Name is count, words or pass; Title is for people.
	Name, Title string
	// Input is the topic that it reads.
	Input string
	// Unit is what its rate counts, and PerRecord how many of them an input record holds.
	Unit      string
	PerRecord int
	// Guarantee is at_least_once or exactly_once; empty in Jobs, where it is not decided.
	Guarantee string
}

// Key names the job and its guarantee.
func (j Job) Key() string {
	if j.Guarantee == "" {
		return j.Name
	}
	return j.Name + ", " + strings.ReplaceAll(j.Guarantee, "_", " ")
}

// Under is the job with a guarantee.
func (j Job) Under(guarantee string) (Job, error) {
	if guarantee != "at_least_once" && guarantee != "exactly_once" {
		return Job{}, fmt.Errorf("there is no guarantee %q: it is at_least_once or exactly_once", guarantee)
	}
	j.Guarantee = guarantee
	return j, nil
}

// Jobs are all of them, in the order in which they are reported.
var Jobs = []Job{
	{Name: "count", Title: "keyed count", Input: "keyed", Unit: "records", PerRecord: 1},
	{Name: "words", Title: "word count", Input: "lines", Unit: "words", PerRecord: WordsPerLine},
	{Name: "pass", Title: "pass-through", Input: "keyed", Unit: "records", PerRecord: 1},
}

// Counted is how many records the second stage of the job must see for n input records; 0 if it has none.
func (j Job) Counted(n int) int {
	if j.Name == "words" {
		return n * WordsPerLine
	}
	return 0
}

// Find is the job called name; the error names those that there are.
func Find(name string) (Job, error) {
	var names []string
	for _, j := range Jobs {
		if j.Name == name {
			return j, nil
		}
		names = append(names, j.Name)
	}
	return Job{}, fmt.Errorf("there is no job %q: it is one of %s", name, strings.Join(names, ", "))
}
