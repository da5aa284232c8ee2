package page

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
)

// words are what the templates say things with.
var words = template.FuncMap{
	"look": look, "clock": clock, "stamp": stamp, "day": day, "rate": rate, "left": left, "percent": percent, "join": strings.Join, "number": number, "share": share,
	"pointer": func(f float64) *float64 { return &f },
}

// looks is how a state looks: its colour and its sign. The state's name stands beside them always.
type looks struct{ Class, Sign string }

var (
	good = looks{"good", "●"}
	busy = looks{"busy", "◐"}
	bad  = looks{"bad", "✖"}
	off  = looks{"off", "○"}
)

// states are the looks of all states, by their names, which the kinds of things share.
var states = map[string]looks{
	lifecycle.NodeRunning.String(): good, lifecycle.StoreActive.String(): good, lifecycle.StoreStandby.String(): good,
	lifecycle.NodeCreated.String(): busy, lifecycle.NodeRebalancing.String(): busy, lifecycle.TaskRestoring.String(): busy,
	lifecycle.StoreOpening.String(): busy, lifecycle.TaskSuspended.String(): busy, lifecycle.NodePendingShutdown.String(): busy, lifecycle.StoreClosing.String(): busy,
	lifecycle.NodePendingError.String(): bad, lifecycle.NodeError.String(): bad,
}

func look(state string) looks {
	if l, ok := states[state]; ok {
		return l
	}
	return off
}

// Said is what it means that the node is in its state.
func (p *Picture) Said() string {
	switch p.State {
	case lifecycle.NodeCreated:
		return "It is starting: it has not begun to join its group."
	case lifecycle.NodeRebalancing:
		if n := restores(p); n > 0 {
			return "It is restoring " + strconv.Itoa(n) + " of its partitions; those that are done already answer."
		}
		return "It is starting, its group gives out tasks anew, or a thread is being replaced. What runs goes on."
	case lifecycle.NodeRunning:
		return "It processes, and answers questions."
	case lifecycle.NodePendingShutdown:
		return "It is ending: a last commit, and its stores are closed."
	case lifecycle.NodeNotRunning:
		return "It has ended in good order. Everything is committed and closed."
	case lifecycle.NodePendingError:
		return "It has failed, and is ending."
	}
	return "It has failed and does nothing any more. Start it again when the cause is out of the way."
}

func restores(p *Picture) (n int) {
	for i := range p.Partitions {
		if p.Partitions[i].Restore != nil {
			n++
		}
	}
	return n
}

// clock is a time of the day; all are UTC.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// stamp is a time for machines.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// day is the time of a record.
func day(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000") }

// rate is per second.
func rate(r *float64) string {
	switch {
	case r == nil:
		return "–"
	case *r > 0 && *r < 10:
		return strconv.FormatFloat(*r, 'f', 1, 64) + "/s"
	}
	return number(int64(math.Round(*r))) + "/s"
}

// left is the time that a restore takes yet.
func left(r *httpapi.RestoreProgress) string {
	if r.Left == 0 {
		return "time left not known"
	}
	return (time.Duration(r.Left) * time.Second).String() + " left"
}

func percent(r *httpapi.RestoreProgress) string {
	return query.Progressed(lifecycle.Progress{Restored: r.Restored, Remaining: r.Remaining})
}

// share is how many of a hundred parts are done.
func share(r *httpapi.RestoreProgress) int64 {
	return int64(100 * float64(r.Restored) / float64(max(1, r.Restored+r.Remaining)))
}

// number has a thin space between thousands.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}
