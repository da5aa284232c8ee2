package cli

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestMemoryIsLimitedAsTheContainerIs(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, none := range []error{memlimit.ErrNoLimit, memlimit.ErrNoCgroup, memlimit.ErrCgroupsNotSupported, errors.New("no such file")} {
		if limitMemory(func() (uint64, error) { return 0, none }); debug.SetMemoryLimit(-1) != before {
			t.Error(none, "gives", debug.SetMemoryLimit(-1))
		}
	}
	if limitMemory(memlimit.Limit(1_000_000_000)); debug.SetMemoryLimit(-1) != 900_000_000 {
		t.Error(debug.SetMemoryLimit(-1))
	}
	t.Setenv("GOMEMLIMIT", "7GiB")
	debug.SetMemoryLimit(7 << 30) // as the runtime does when it starts
	if limitMemory(memlimit.Limit(1_000_000_000)); debug.SetMemoryLimit(-1) != 7<<30 {
		t.Error("GOMEMLIMIT does not win:", debug.SetMemoryLimit(-1))
	}
}

// What stores keep in memory grows with the process's memory, within bounds, and is what the flag says if it says something.
func TestStoreCacheFollowsTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, c := range []struct{ limit, flag, want int64 }{
		{math.MaxInt64, 0, 64 << 20}, {100 << 20, 0, 64 << 20}, {2 << 30, 0, 256 << 20}, {100 << 30, 0, 1 << 30}, {2 << 30, 5 << 20, 5 << 20},
	} {
		debug.SetMemoryLimit(c.limit)
		if got := (&settings{StoreCacheBytes: c.flag}).storeCache(); got != c.want {
			t.Errorf("limit %d, flag %d: %d, want %d", c.limit, c.flag, got, c.want)
		}
	}
}
