package cli

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/millrace-io/millrace/record"
)

// Headers of a record that the feed writes.
const (
	headerFile = "file" // the source's path
	headerLine = "line" // the line's number, decimal, from 1
	headerPart = "part" // the part of a long line, decimal; absent for part 1
	// headerOrder holds a digest of the paths of all sources up to this one, 4 bytes. With it a later run can tell whether
	// what it skips as fed really was.
	headerOrder = "order"
)

// position names a record that was fed.
type position struct {
	file       string
	line, part int
	order      uint32
}

// positionOf reads the headers of a fed record.
func positionOf(r *record.Raw) (position, error) {
	p := position{part: 1}
	file, ok := r.Headers.Last(headerFile)
	order, _ := r.Headers.Last(headerOrder)
	if !ok || len(order) != 4 {
		return p, fmt.Errorf("its last record, at offset %d, has no headers that name file and line", r.Offset)
	}
	p.file, p.order = string(file), binary.BigEndian.Uint32(order)
	for name, n := range map[string]*int{headerLine: &p.line, headerPart: &p.part} {
		v, ok := r.Headers.Last(name)
		if !ok && name == headerPart {
			continue
		}
		var err error
		if *n, err = strconv.Atoi(string(v)); err != nil {
			return p, fmt.Errorf("header %q of its last record, at offset %d, is %q and no number", name, r.Offset, v)
		}
	}
	return p, nil
}

// orders are the digests of headerOrder, one for each input.
func orders(inputs []input) []uint32 {
	out := make([]uint32, len(inputs))
	h := fnv.New32a()
	for i, in := range inputs {
		h.Write([]byte(in.path))
		h.Write([]byte{0})
		out[i] = h.Sum32()
	}
	return out
}

// checkResume says whether everything that a run with these inputs would skip was fed before: the last record of each
// partition must come from one of the inputs, and the inputs before that one must be those of the earlier run.
func checkResume(appID string, inputs []input, last []*position) error {
	known := map[string]uint32{}
	for i, o := range orders(inputs) {
		known[inputs[i].path] = o
	}
	for _, p := range last {
		if p == nil {
			continue
		}
		order, ok := known[p.file]
		if !ok {
			return failf(nil, "application %s was last fed from %s, which is not among the inputs; name the same inputs as then, or leave out --app for a fresh count", appID, p.file)
		}
		if order != p.order {
			return failf(nil, "application %s was fed other files than these before %s; name the same inputs as then (more may follow them), or leave out --app for a fresh count", appID, p.file)
		}
	}
	return nil
}
