package task

import (
	"testing"

	"github.com/millrace-io/millrace/record"
)

func TestHeldCutsABatch(t *testing.T) {
	b := &buffer{}
	records := []record.Raw{{Offset: 3}, {Offset: 5}, {Offset: 9}}
	for _, test := range []struct{ at, want int64 }{{2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 2}, {9, 2}, {10, 3}} {
		h := hold{buffer: b, offset: test.at}
		if got := len(h.before(b, records)); int64(got) != test.want {
			t.Errorf("held at %d: %d records before it, not %d", test.at, got, test.want)
		}
		h.lifted = true
		if got := len(h.before(b, records)); got != 3 {
			t.Errorf("lifted: %d", got)
		}
	}
	if got := len((&hold{buffer: b, offset: 3}).before(&buffer{}, records)); got != 3 {
		t.Errorf("another partition is cut to %d", got)
	}
}

// A handler learns which try it is asked about.
func TestAttemptCountsFailures(t *testing.T) {
	b := &buffer{}
	h := hold{buffer: b, offset: 5, failures: 2}
	if got := []int{h.attempt(b, 5), h.attempt(b, 4), h.attempt(&buffer{}, 5), (&hold{}).attempt(b, 5)}; got[0] != 3 || got[1] != 1 || got[2] != 1 || got[3] != 1 {
		t.Error(got)
	}
}
