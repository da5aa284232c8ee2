package page

import (
	"fmt"
	"unicode/utf8"

	"github.com/millrace-io/millrace/topology"
)

// drawing is a topology's graph with a place for each thing. All lengths are in pixels.
type drawing struct {
	Width, Height int
	Boxes         []box
	Lines         []line
}

type box struct {
	X, Y, W, H int
	// Class says what it is, and Round how round its corners are.
	Class string
	Round int
	Label string
	// Note is a second line; empty if there is none.
	Note string
}

// TextX and TextY are where the label stands, NoteY where the note does.
func (b *box) TextX() int { return b.X + b.W/2 }
func (b *box) TextY() int {
	if b.Note == "" {
		return b.Y + b.H/2 + 4
	}
	return b.Y + 17
}
func (b *box) NoteY() int { return b.Y + 34 }

// line is a path from the right side of a box to the left side of another.
type line struct{ Path string }

const (
	letterWidth = 8 // of the drawing's font, at most
	boxHeight   = 44
	betweenRows = 16
	betweenCols = 56
	margin      = 8
)

// draw puts each place in the column behind all that lead to it.
func draw(g *topology.Graph, partitions []Partition) *drawing {
	d := &drawing{Height: margin, Boxes: make([]box, len(g.Places))}
	columns := layers(g)
	x := margin
	for c := 0; ; c++ {
		width, y, any := 0, margin, false
		for i, p := range g.Places {
			if columns[i] == c {
				any = true
				d.Boxes[i] = boxOf(p, partitions)
				d.Boxes[i].X, d.Boxes[i].Y = x, y
				width, y = max(width, d.Boxes[i].W), y+boxHeight+betweenRows
			}
		}
		if !any {
			break
		}
		for i := range g.Places {
			if columns[i] == c {
				d.Boxes[i].W = width
			}
		}
		d.Width, x = x+width+margin, x+width+betweenCols
		d.Height = max(d.Height, y-betweenRows+margin)
	}
	for _, e := range g.Edges {
		d.Lines = append(d.Lines, between(&d.Boxes[e[0]], &d.Boxes[e[1]]))
	}
	return d
}

func between(from, to *box) line {
	x1, y1, x2, y2 := from.X+from.W, from.Y+from.H/2, to.X-2, to.Y+to.H/2
	bend := max(betweenCols/2, (x2-x1)/2)
	return line{fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2)}
}

func boxOf(p topology.Place, partitions []Partition) box {
	b := box{H: boxHeight, Label: p.Label, Class: "topic", Round: 2}
	switch p.Kind {
	case topology.TasksPlace:
		b.Class, b.Round, b.Note = "tasks", 10, rates(p.SubTopology, partitions)
	case topology.StorePlace:
		b.Class, b.Round = "store", 22
	}
	b.W = 24 + letterWidth*max(utf8.RuneCountInString(b.Label), utf8.RuneCountInString(b.Note))
	return b
}

// rates is what the tasks of a sub-topology that are here do together.
func rates(sub int32, partitions []Partition) string {
	here, sum, known := 0, 0.0, false
	for i := range partitions {
		p := &partitions[i]
		if p.SubTopology != sub || !p.Here {
			continue
		}
		if here++; p.Rate != nil {
			sum, known = sum+*p.Rate, true
		}
	}
	note := fmt.Sprintf("%d here", here)
	if known {
		note += ", " + rate(&sum)
	}
	return note
}

// layers is the column of each place: the length of the longest way to it. A way that comes back to where it was, through a
// topic that the topology reads and writes, ends there.
func layers(g *topology.Graph) []int {
	next := make([][]int, len(g.Places))
	entered := make([]bool, len(g.Places))
	for _, e := range g.Edges {
		next[e[0]] = append(next[e[0]], e[1])
		entered[e[1]] = true
	}
	column, on := make([]int, len(g.Places)), make([]bool, len(g.Places))
	for i := range column {
		column[i] = -1
	}
	var walk func(i, at int)
	walk = func(i, at int) {
		if on[i] || at <= column[i] {
			return
		}
		column[i], on[i] = at, true
		for _, n := range next[i] {
			walk(n, at+1)
		}
		on[i] = false
	}
	for i := range g.Places {
		if !entered[i] {
			walk(i, 0)
		}
	}
	for i := range g.Places { // what is on a circle that nothing leads to
		if column[i] < 0 {
			walk(i, 0)
		}
	}
	return column
}
