package cli

import "github.com/KimMachineGun/automemlimit/memlimit"

// collectorShare is the collector's part of a container's memory. The rest is for what the collector does not count: stacks
// of the kernel, mapped files, and the pages of the binary.
const collectorShare = 0.9

// limitMemory makes the collector work harder before the process comes to the memory limit of its container, where the kernel
// would kill it. GOMEMLIMIT, if it is set, wins. How many cores the container may use, the runtime finds out by itself.
// This is for a process that is a node, not for the library: a program that embeds a node decides about its own memory.
// A limit that cannot be read is none: what was the runtime's default stays.
func limitMemory(of memlimit.Provider) {
	_, _ = memlimit.SetGoMemLimitWithOpts(memlimit.WithProvider(of), memlimit.WithRatio(collectorShare))
}
