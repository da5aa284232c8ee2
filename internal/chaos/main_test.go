package main

import (
	"errors"
	"flag"
	"slices"
	"testing"

	"github.com/millrace-io/millrace"
)

func TestFlags(t *testing.T) {
	s, err := parse([]string{"-cycles", "7", "-seed", "9", "-guarantee", "at_least_once"})
	if err != nil || s.cycles != 7 || s.seed != 9 || s.guarantee != millrace.AtLeastOnce {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err = parse(nil); err != nil || s.seed == 0 || s.guarantee != millrace.ExactlyOnce {
		t.Errorf("by default %+v, %v", s, err)
	}
	if s, err = parse([]string{"-faults", "stop-in-commit,lose-quorum"}); err != nil || !slices.Equal(s.faults, []kind{stopInCommit, loseQuorum}) {
		t.Errorf("got %v, %v", s.faults, err)
	}
	for _, wrong := range [][]string{{"-cycles", "0"}, {"-rate", "0"}, {"more"}, {"-guarantee", "perhaps"}, {"-faults", "kill-node,flood"}, {"-rolling", "-storm"}, {"-brokers", "1"}, {"-rolling", "-brokers", "0"}, {"-rolling", "-down", "-1s"}} {
		if _, err := parse(wrong); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v is taken", wrong)
		}
	}
}

// What the parent passes to a node is what the node reads.
func TestNodeArguments(t *testing.T) {
	want := nodeSettings{brokers: "a:1,b:2", state: "s", report: "r", guarantee: millrace.AtLeastOnce, threads: 3, remote: "c:3"}
	args := want.args()
	got, err := parseNode(args[1:])
	if err != nil || args[0] != "node" || got != want {
		t.Errorf("%v is read as %+v: %v", args, got, err)
	}
}
