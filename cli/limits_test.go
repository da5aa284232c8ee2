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
