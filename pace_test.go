package millrace

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/record"
)

func TestPace(t *testing.T) {
	one, two := record.TaskID{}, record.TaskID{Partition: 1}
	at := func(ms int) time.Time { return time.UnixMilli(1_000_000).Add(time.Duration(ms) * time.Millisecond) }
	p := &pace{}
	for i, look := range []struct {
		at      int
		records map[record.TaskID]int64
		want    map[record.TaskID]float64
	}{
		{0, map[record.TaskID]int64{one: 100}, map[record.TaskID]float64{}},
		{500, map[record.TaskID]int64{one: 900}, map[record.TaskID]float64{}},
		{2000, map[record.TaskID]int64{one: 300, two: 7}, map[record.TaskID]float64{one: 100}},
		{2100, map[record.TaskID]int64{one: 999}, map[record.TaskID]float64{one: 100}},
		{3000, map[record.TaskID]int64{one: 300, two: 17}, map[record.TaskID]float64{one: 0, two: 10}},
		{4000, map[record.TaskID]int64{one: 0}, map[record.TaskID]float64{}},
		{5000, map[record.TaskID]int64{one: 8}, map[record.TaskID]float64{one: 8}},
		{90_000, map[record.TaskID]int64{one: 9}, map[record.TaskID]float64{}},
	} {
		if got := p.of(at(look.at), look.records); fmt.Sprint(got) != fmt.Sprint(look.want) {
			t.Errorf("look %d: %v, want %v", i, got, look.want)
		}
	}
}

func TestHubRemembersTheLastEvents(t *testing.T) {
	h := &hub{}
	for i := range remembered + 5 {
		h.tell(Event{Path: fmt.Sprint(i)})
	}
	last := h.recent()
	if len(last) != remembered || last[0].Path != fmt.Sprint(remembered+4) || last[remembered-1].Path != "5" {
		t.Errorf("%d from %s to %s", len(last), last[0].Path, last[len(last)-1].Path)
	}
}
