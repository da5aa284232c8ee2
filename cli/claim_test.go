package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHolderFollowsFromTheOrderOfMarks(t *testing.T) {
	for marks, want := range map[string]string{
		"":                                             "",
		"claim a 1":                                    "1",
		"claim a 1, claim b 2":                         "1",
		"claim a 1, claim b 2, done 1":                 "",
		"claim a 1, done 2":                            "1",
		"claim a 1, done 1, claim b 2":                 "2",
		"claim a 1, claim a 2":                         "2",
		"claim a 1, claim a 2, done 1":                 "2",
		"claim a 1, take b 2 1":                        "2",
		"claim a 1, take b 2 1, done 1":                "2",
		"claim a 1, take b 2 9":                        "1",
		"claim a 1, take b 2 1, take c 3 1, claim d 4": "2",
		"take b 2 1":                                   "",
	} {
		if got := holder(parseMarks(marks)).token; got != want {
			t.Errorf("%s: %q holds, want %q", marks, got, want)
		}
	}
}

func parseMarks(text string) (marks []mark) {
	for _, m := range strings.Split(text, ", ") {
		f := append(strings.Fields(m), "", "", "", "")
		switch markKind(f[0]) {
		case markDone:
			marks = append(marks, mark{kind: markDone, token: f[1]})
		case markClaim, markTake:
			marks = append(marks, mark{kind: markKind(f[0]), process: f[1], token: f[2], of: f[3]})
		}
	}
	return marks
}

// Between two marks at most one process believes that it holds the right, whatever the order of looks and appends, as long
// as nobody is taken for dead.
func TestOneProcessHoldsTheClaimAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var marks []mark
		believes := map[string]bool{}
		tokens := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			process := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "process")
			h := holder(marks)
			switch {
			case believes[process]:
				marks = append(marks, mark{kind: markDone, token: h.token})
				believes[process] = false
			case rapid.Bool().Draw(t, "claims"):
				tokens++
				marks = append(marks, mark{kind: markClaim, process: process, token: fmt.Sprint(tokens)})
				believes[process] = holder(marks).token == fmt.Sprint(tokens)
			}
			n := 0
			for _, b := range believes {
				if b {
					n++
				}
			}
			if n > 1 {
				t.Fatalf("%d processes hold it after %v", n, marks)
			}
		}
	})
}

// sharedMarks is a log of claims that several processes have. The mutex stands for the broker.
type sharedMarks struct {
	mu    sync.Mutex
	marks []mark
	err   error
}

func (l *sharedMarks) Append(_ context.Context, m mark) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = append(l.marks, m)
	return l.err
}

func (l *sharedMarks) All(context.Context) ([]mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]mark(nil), l.marks...), l.err
}

func (l *sharedMarks) Close() error { return nil }

func newClaim(l claimLog, process string, patience time.Duration) *claim {
	return &claim{log: l, process: process, patience: patience, waiting: func() {},
		progress: func(context.Context) (string, error) { return "", nil }}
}

func TestAClaimWaitsForTheHolder(t *testing.T) {
	log, waits := &sharedMarks{}, make(chan struct{})
	first, second := newClaim(log, "a", time.Hour), newClaim(log, "b", time.Hour)
	second.waiting = func() { close(waits) }
	if err := first.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- second.acquire(t.Context()) }()
	<-waits
	if err := first.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestASilentHolderIsReplacedAndFindsOut(t *testing.T) {
	log := &sharedMarks{}
	first, second := newClaim(log, "a", 200*time.Millisecond), newClaim(log, "b", 200*time.Millisecond)
	if err := errors.Join(first.acquire(t.Context()), second.acquire(t.Context())); err != nil {
		t.Fatal(err)
	}
	var failure *FailureError
	if err := first.check(t.Context()); !errors.As(err, &failure) || !strings.Contains(err.Error(), "process b has taken the feeding over") {
		t.Fatal(err)
	}
	if err := second.check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestARestartedProcessTakesItsOwnClaimUp(t *testing.T) {
	log := &sharedMarks{}
	if err := errors.Join(newClaim(log, "a", time.Hour).acquire(t.Context()), newClaim(log, "a", time.Hour).acquire(t.Context())); err != nil {
		t.Fatal(err)
	}
}
