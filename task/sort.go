package task

import "slices"

// sorter orders cells by key. Its memory is used again at each commit.
//
// Comparing 60,000 strings costs more than everything else in a commit. So the eight bytes behind the prefix that all
// keys share are taken as one number and sorted byte by byte (LSD radix, constant bytes skipped); only keys that are the
// same there are compared as strings.
type sorter struct {
	items, spare []item
	sorted       []*cell
}

type item struct {
	head uint64
	cell *cell
}

// radixCells is from how many cells on the counting passes pay.
const radixCells = 512

// byKey gives the cells in key order. The slice is the sorter's and good until its next call.
func (s *sorter) byKey(cells []*cell) []*cell {
	s.sorted = slices.Grow(s.sorted[:0], len(cells))[:len(cells)]
	s.items = slices.Grow(s.items[:0], len(cells))[:len(cells)]
	shared := sharedPrefix(cells)
	for i, c := range cells {
		s.items[i] = item{head(c.Key[shared:]), c}
	}
	if len(cells) < radixCells {
		slices.SortFunc(s.items, compareItems)
	} else {
		s.radix()
		s.settleTies()
	}
	for i, it := range s.items {
		s.sorted[i] = it.cell
	}
	return s.sorted
}

func compareItems(a, b item) int {
	switch {
	case a.head < b.head:
		return -1
	case a.head > b.head:
		return 1
	}
	return compareCells(a.cell, b.cell)
}

// radix sorts items by head.
func (s *sorter) radix() {
	s.spare = slices.Grow(s.spare[:0], len(s.items))[:len(s.items)]
	var counts [8][256]int32
	for _, it := range s.items {
		for d := range counts {
			counts[d][byte(it.head>>(8*d))]++
		}
	}
	for d := range counts {
		if int(counts[d][byte(s.items[0].head>>(8*d))]) == len(s.items) {
			continue
		}
		at := int32(0)
		for i, n := range counts[d] {
			counts[d][i] = at
			at += n
		}
		for _, it := range s.items {
			k := byte(it.head >> (8 * d))
			s.spare[counts[d][k]] = it
			counts[d][k]++
		}
		s.items, s.spare = s.spare, s.items
	}
}

// settleTies orders the runs of one head by their whole keys.
func (s *sorter) settleTies() {
	for from := 0; from < len(s.items); {
		to := from + 1
		for to < len(s.items) && s.items[to].head == s.items[from].head {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(s.items[from:to], compareItems)
		}
		from = to
	}
}

// sharedPrefix is how many bytes all keys begin with.
func sharedPrefix(cells []*cell) int {
	if len(cells) == 0 {
		return 0
	}
	first := cells[0].Key
	n := len(first)
	for _, c := range cells[1:] {
		n = min(n, len(c.Key))
		for i := range n {
			if c.Key[i] != first[i] {
				n = i
				break
			}
		}
	}
	return n
}

// head is the first eight bytes as a number that sorts as they do. A shorter key is padded with zeros; its tie with a key
// that has zeros there is broken by the whole keys.
func head(s string) (h uint64) {
	if len(s) >= 8 {
		return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
			uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
	}
	for i := range 8 {
		h <<= 8
		if i < len(s) {
			h |= uint64(s[i])
		}
	}
	return h
}
