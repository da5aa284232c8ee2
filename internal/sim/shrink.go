package main

import "slices"

// shrink looks for a smaller scenario that fails too: fewer faults first, then fewer records. Leaving something out changes
// what the generator of numbers decides later, so it may take a few tries, and what is left need not fail in the same way.
func shrink(s *scenario, why *violation, fails func(*scenario) *violation) (*scenario, *violation) {
	best := *s
	best.Faults = slices.Clone(s.Faults)
	try := func(smaller scenario) bool {
		if hurt := fails(&smaller); hurt != nil {
			best, why = smaller, hurt
			return true
		}
		return false
	}
	for size := len(best.Faults) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(best.Faults); {
			smaller := best
			smaller.Faults = slices.Delete(slices.Clone(best.Faults), at, at+size)
			if !try(smaller) {
				at += size
			}
		}
	}
	for _, part := range []int{8, 4, 2} {
		for best.Records > part {
			smaller := best
			smaller.Records -= best.Records / part
			smaller.Faults = slices.Clone(best.Faults)
			if !try(smaller) {
				break
			}
		}
	}
	return &best, why
}
