package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
)

// watched is a node that tells of its start and of full disks.
type watched struct {
	operated
	started bool
	full    []string
}

func (w *watched) Started() bool      { return w.started }
func (w *watched) DiskFull() []string { return w.full }

// ailing has something of everything.
func ailing() *watched {
	n := &watched{full: []string{"/app/thread-1/task-0_1"}}
	n.state = lifecycle.NodeRebalancing
	n.threads = []lifecycle.ThreadStatus{{Name: "thread-1", State: lifecycle.ThreadRunning, Stuck: true},
		{Name: "thread-2", State: lifecycle.ThreadPendingShutdown, Cause: errors.New("broken\n[+]node RUNNING")}}
	return n
}

// The lines of every check, of a node that ails and of one that is well.
func TestVerboseHealth(t *testing.T) {
	well := &watched{started: true}
	well.state, well.threads = lifecycle.NodeRunning, []lifecycle.ThreadStatus{{Name: "thread-1", State: lifecycle.ThreadRunning}}
	rest := "[!]threads thread-2 is PENDING_SHUTDOWN: broken [+]node RUNNING\n" +
		"[!]stores counts partition 1 is restored, 33 % of 3 records, 1.5s left\n" +
		"[!]stuck thread-1 has not stepped for too long\n" +
		"[!]quarantined task 0_3 at lines-3 offset 41, 2 attempts\n" +
		"[!]disk /app/thread-1/task-0_1 waits for space\n"
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/livez?verbose":        {200, "[+]node REBALANCING\n" + rest + "livez check passed\n"},
		"/readyz?verbose":       {503, "[-]node REBALANCING\n" + rest + "readyz check failed\n"},
		"/readyz?verbose=true":  {503, "[-]node REBALANCING\n" + rest + "readyz check failed\n"},
		"/startupz?verbose":     {503, "[-]node has not been running yet, and is REBALANCING\n" + rest + "startupz check failed\n"},
		"/readyz?verbose=false": {503, `{"state":"REBALANCING",`},
	} {
		r := order(path, "")
		r.Method = http.MethodGet
		w := serveOnce(ailing(), r)
		if w.Code != want.status || !strings.HasPrefix(w.Body.String(), want.text) {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, w.Code, w.Body, want.text)
		}
		if w := serveOnce(well, r); w.Code != http.StatusOK {
			t.Errorf("%s of a node that is well: %d %s", path, w.Code, w.Body)
		}
		r.RemoteAddr = "10.0.0.7:5000"
		if w := serveOnce(ailing(), r); strings.Contains(w.Body.String(), "broken") || strings.Contains(w.Body.String(), "/secret") {
			t.Errorf("%s tells causes to another machine: %s", path, w.Body)
		}
	}
	lost := ailing()
	lost.failure = query.New(query.StreamThreadNotRunning, "", query.NoPartition)
	r := order("/livez?verbose", "")
	r.Method = http.MethodGet
	if w := serveOnce(lost, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "[!]stores whether any is restored is not known\n") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A node has started once it has been RUNNING, and stays so whatever comes later; until then its restores are told.
func TestStartup(t *testing.T) {
	for _, c := range []struct {
		n    httpapi.Node
		want int
	}{
		{ailing(), 503}, {&watched{started: true}, 200}, {&fake{state: lifecycle.NodeRebalancing}, 503}, {&fake{state: lifecycle.NodeRunning}, 200},
	} {
		r := order("/startupz", "")
		r.Method = http.MethodGet
		w := serveOnce(c.n, r)
		var body struct {
			Started  bool
			Restores []struct {
				Store               string
				Restored, Remaining int64
				Left                float64
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != c.want || body.Started != (c.want == 200) {
			t.Errorf("%d %s, want %d: %v", w.Code, w.Body, c.want, err)
		}
		if _, ok := c.n.(*watched); ok && (len(body.Restores) != 1 || body.Restores[0].Remaining != 2 || body.Restores[0].Left != 1.5) {
			t.Errorf("%s", w.Body)
		}
	}
}
