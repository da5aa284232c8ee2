package cli

import (
	"errors"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestMemoryIsLimitedAsTheContainerIs(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, none := range []error{memlimit.ErrNoLimit, memlimit.ErrNoCgroup, memlimit.ErrCgroupsNotSupported} {
		if err := limitMemory(func() (uint64, error) { return 0, none }); err != nil || debug.SetMemoryLimit(-1) != before {
			t.Error(none, "gives", err, debug.SetMemoryLimit(-1))
		}
	}
	broken := errors.New("no such file")
	if err := limitMemory(func() (uint64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := limitMemory(memlimit.Limit(1_000_000_000)); err != nil || debug.SetMemoryLimit(-1) != 900_000_000 {
		t.Error(err, debug.SetMemoryLimit(-1))
	}
	t.Setenv("GOMEMLIMIT", "7GiB")
	debug.SetMemoryLimit(7 << 30) // as the runtime does when it starts
	if err := limitMemory(memlimit.Limit(1_000_000_000)); err != nil || debug.SetMemoryLimit(-1) != 7<<30 {
		t.Error("GOMEMLIMIT does not win:", err, debug.SetMemoryLimit(-1))
	}
}
