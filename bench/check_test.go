package main

import (
	"strings"
	"testing"
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
		{Job: "count", System: "raw", CPUPerMillion: 0.5, Rate: 30},
		{Job: "count", System: "kafka-streams", CPUPerMillion: 9}, {Job: "count", System: "kafka-streams", CPUPerMillion: 8},
		{Job: "count", System: "kafka-streams", CPUPerMillion: 7},
		{Job: "count", System: "millrace", CPUPerMillion: 2},
	}}
	if got := r.ratio("count", "millrace"); got != 4 {
		t.Errorf("millrace is %v times cheaper than the peer, want 8/2", got)
	}
	if got := r.share("count", "millrace"); got != 25 {
		t.Errorf("millrace is at %v %% of the ceiling, want 0.5/2", got)
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
