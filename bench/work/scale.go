package work

import "fmt"

// Axis is one thing that grows while the rest stays: Name is for people, Jobs are in the order of growth.
type Axis struct {
	Name string
	Jobs []Job
}

// Axes are along what the cost of a record is measured. Keys are drawn uniformly, which is the hard case for a cache: each
// draw is another key. There are at least twice as many records as keys, so that most keys are met again.
func Axes() []Axis {
	return []Axis{
		{"keys", []Job{uniform(1e4, 4e6), uniform(1e5, 4e6), uniform(1e6, 4e6), uniform(1e7, 2e7)}},
		{"partitions", []Job{spread(4), spread(40), spread(400)}},
		{"value bytes", []Job{sized(10, 4e6), sized(100, 3e6), sized(1_000, 8e5), sized(10_000, 1e5)}},
	}
}

// Scale are the jobs of all axes.
func Scale() (jobs []Job) {
	for _, a := range Axes() {
		jobs = append(jobs, a.Jobs...)
	}
	return jobs
}

func uniform(keys, records int) Job {
	name := fmt.Sprintf("keys-%d", keys)
	return Job{Name: name, Title: fmt.Sprintf("keyed count, %d keys", keys), Does: "count", Records: records,
		Input: Input{Topic: name, Partitions: Partitions, Draw: Uniform, Keys: keys, ValueBytes: 10}}
}

func spread(partitions int32) Job {
	name := fmt.Sprintf("partitions-%d", partitions)
	return Job{Name: name, Title: fmt.Sprintf("keyed count, %d partitions", partitions), Does: "count", Records: 2e6,
		Input: Input{Topic: name, Partitions: partitions, Keys: Keys, ValueBytes: 100}}
}

func sized(bytes, records int) Job {
	name := fmt.Sprintf("bytes-%d", bytes)
	return Job{Name: name, Title: fmt.Sprintf("pass-through, values of %d bytes", bytes), Does: "pass", Records: records,
		Input: Input{Topic: name, Partitions: Partitions, Keys: Keys, ValueBytes: bytes}}
}

// Smaller is a job of Scale for a machine that only tries it out: a hundredth of its records, and of its keys.
func (j Job) Smaller() Job {
	if j.Records > 0 {
		j.Records /= 100
	}
	if j.Input.Draw == Uniform {
		j.Input.Keys /= 100
	}
	return j
}
