package work

import (
	"fmt"
	"strings"
)

// Job is what a system is asked to do.
type Job struct {
	// Name is count, words, pass or gets; Title is for people.
	Name, Title string
	// Input is the topic that it reads.
	Input string
	// Unit is what its rate counts, and PerRecord how many of them an input record holds.
	Unit      string
	PerRecord int
	// Reads says that the store is read while the job runs and after it, and that this is what is measured.
	Reads bool
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
	{Name: "gets", Title: "point reads of a count", Input: "twice", Unit: "records", PerRecord: 1, Reads: true},
}

// Expected are the counts that a correct run over n input records ends with. A word that does not occur is absent.
func (j Job) Expected(n int) map[string]int64 {
	if j.Input != "twice" {
		return Counts(n * j.PerRecord)
	}
	counts := make(map[string]int64, n/2)
	for i := range n / 2 {
		counts[string(AppendWord(nil, i))] = 2
	}
	return counts
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
