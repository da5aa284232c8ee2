package main

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/work"
)

func TestCompareNamesWhatIsWrong(t *testing.T) {
	want := map[string]int64{"a": 1, "b": 2}
	for _, test := range []struct {
		got  map[string]int64
		says string
	}{
		{map[string]int64{"a": 1, "b": 2}, ""},
		{map[string]int64{"a": 1}, `"b" is 0 and should be 2`},
		{map[string]int64{"a": 1, "b": 3}, `"b" is 3 and should be 2`},
		{map[string]int64{"a": 1, "b": 2, "c": 1}, `"c" is not in the input`},
	} {
		err := compare(test.got, want)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("compare(%v) = %v, want %q", test.got, err, test.says)
		}
	}
}

func TestReportComparesMedians(t *testing.T) {
	r := report{rows: []row{
		{Job: "count, at least once", System: "raw", CPUPerMillion: 0.5, Rate: 30},
		{Job: "count, at least once", System: "kafka-streams", CPUPerMillion: 9}, {Job: "count, at least once", System: "kafka-streams", CPUPerMillion: 8},
		{Job: "count, at least once", System: "kafka-streams", CPUPerMillion: 7},
		{Job: "count, at least once", System: "millrace", CPUPerMillion: 2}, {Job: "count, exactly once", System: "millrace", CPUPerMillion: 3},
	}}
	if got := r.ratio("count, at least once", "millrace"); got != 4 {
		t.Errorf("millrace is %v times cheaper than the peer, want 8/2", got)
	}
	if got := r.share(work.Job{Name: "count", Guarantee: "at_least_once"}, "millrace"); got != 25 {
		t.Errorf("millrace is at %v %% of the ceiling, want 0.5/2", got)
	}
	if got := r.surcharge(work.Job{Name: "count", Guarantee: "exactly_once"}, "millrace"); got != 1.5 {
		t.Errorf("exactly once costs %v times as much, want 3/2", got)
	}
	if got := r.ratio("words", "millrace"); got != 0 {
		t.Errorf("the ratio of a job that did not run is %v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range []string{"-records 0", "-repetitions -1", "-nonsense"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s was taken", args)
		}
	}
}
