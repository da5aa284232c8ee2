package cli

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

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

// What a node's stores may keep in memory if nobody says: leastStoreCache, or one part of storeCacheShare of the limit above.
// As much again goes to memtables and blocks of the engine.
const (
	leastStoreCache, mostStoreCache = 64 << 20, 1 << 30
	storeCacheShare                 = 8
)

func (s *settings) storeCache() int64 {
	if s.StoreCacheBytes > 0 {
		return s.StoreCacheBytes
	}
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 { // there is none
		return leastStoreCache
	}
	return min(max(limit/storeCacheShare, leastStoreCache), mostStoreCache)
}
