package page

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/topology"
)

var variable = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`)

// luminance and contrast are those of WCAG 2.1.
func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Each colour of text can be read on each ground that it is put on, in both schemes.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(scheme, -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range [][2]string{{"text", "ground"}, {"text", "card"}, {"soft", "ground"}, {"soft", "card"}, {"link", "ground"}, {"link", "card"},
			{"good", "good-back"}, {"busy", "busy-back"}, {"bad", "bad-back"}, {"off", "off-back"}, {"bad", "card"}, {"bad", "ground"}, {"card", "link"},
			{"text", "good-back"}, {"soft", "good-back"}, {"text", "busy-back"}, {"text", "off-back"}} {
			if got := contrast(t, colours[pair[0]], colours[pair[1]]); got < 4.5 {
				t.Errorf("%s: %s on %s is %.2f", name, pair[0], pair[1], got)
			}
		}
	}
}

// No state is without a look but those in which nothing happens any more.
func TestEveryStateHasItsLook(t *testing.T) {
	ended := map[string]bool{lifecycle.NodeNotRunning.String(): true, lifecycle.StoreClosed.String(): true}
	for _, names := range [][]string{lifecycle.NodeTable.Names(), lifecycle.ThreadTable.Names(), lifecycle.TaskTable.Names(), lifecycle.StoreTable.Names()} {
		for _, name := range names {
			if (look(name) == off) != ended[name] {
				t.Errorf("%s looks %s", name, look(name).Class)
			}
		}
	}
}

// Boxes do not lie on each other, and lines go on; a topic that is read and written ends its circle.
func TestDrawing(t *testing.T) {
	place := func(label string, kind topology.PlaceKind) topology.Place {
		return topology.Place{Label: label, Kind: kind}
	}
	g := &topology.Graph{Places: []topology.Place{place("in", topology.TopicPlace), place("tasks 0_*", topology.TasksPlace), place("counts", topology.StorePlace),
		place("app-counts-changelog", topology.TopicPlace), place("loop", topology.TopicPlace), place("alone", topology.TopicPlace), place("back", topology.TasksPlace)},
		Edges: [][2]int{{0, 1}, {1, 2}, {2, 3}, {1, 4}, {4, 1}, {5, 6}, {6, 5}}}
	d := draw(g, nil)
	for i := range d.Boxes {
		a := &d.Boxes[i]
		if a.W == 0 || a.X < 0 || a.X+a.W > d.Width || a.Y+a.H > d.Height {
			t.Errorf("%+v is outside of %d × %d", a, d.Width, d.Height)
		}
		for j := range d.Boxes[:i] {
			if b := &d.Boxes[j]; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies on %s", a.Label, b.Label)
			}
		}
	}
	if len(d.Lines) != len(g.Edges) || d.Boxes[0].X >= d.Boxes[1].X || d.Boxes[1].X >= d.Boxes[2].X || d.Boxes[2].X >= d.Boxes[3].X {
		t.Errorf("%+v", d)
	}
}
