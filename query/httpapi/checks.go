package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
)

// Checked is a Node that tells more of its health. One that does not has started when it is RUNNING.
type Checked interface {
	Node
	// Started says that the node has been RUNNING once.
	Started() bool
	// DiskFull are the paths of the tasks and stores that wait for space on their disk, in order.
	DiskFull() []string
}

// restoreTime bounds what a probe waits for the list of restores. Health is told without it then.
const restoreTime = time.Second

// check is one line of a verbose answer.
type check struct {
	name string
	// bad says that something is to be told; decides, that the whole answer is 503 for it.
	bad, decides bool
	detail       string
}

// String is the line: [+] is well, [-] is why the answer is 503, and [!] is told and changes nothing.
func (c check) String() string {
	mark := "+"
	switch {
	case c.bad && c.decides:
		mark = "-"
	case c.bad:
		mark = "!"
	}
	return "[" + mark + "]" + c.name + " " + c.detail
}

// started says that the node has been RUNNING once.
func (h *handler) started() bool {
	if n, ok := h.node.(Checked); ok {
		return n.Started()
	}
	return h.node.State() == lifecycle.NodeRunning
}

// restores are those under way, or that they are not known in time.
func (h *handler) restores(r *http.Request) ([]query.RestoreInfo, error) {
	ctx, cancel := context.WithTimeout(r.Context(), restoreTime)
	defer cancel()
	return query.Restores(ctx, h.node, "")
}

// verbose says that a line for each check is asked for, as Kubernetes' own components have it.
func verbose(r *http.Request) bool {
	values := r.URL.Query()
	return values.Has("verbose") && values.Get("verbose") != "false"
}

// answer gives the health, or its lines. about is the check that decides.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, about check, body func() any) {
	status, verdict := http.StatusOK, "passed"
	if about.bad {
		status, verdict = http.StatusServiceUnavailable, "failed"
	}
	if !verbose(r) {
		write(w, status, "application/json", body())
		return
	}
	about.decides = true
	var text strings.Builder
	for _, c := range append([]check{about}, h.checks(r)...) {
		fmt.Fprintln(&text, c)
	}
	fmt.Fprintf(&text, "%s check %s\n", strings.TrimPrefix(r.URL.Path, "/"), verdict)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text.String())) // the client has gone: nobody to tell
}

// checks are the lines that decide nothing: a node that lacks something of this still answers what it can.
func (h *handler) checks(r *http.Request) []check {
	all := h.health(r)
	return []check{threadCheck(all), h.storeCheck(r), stuckCheck(all), quarantineCheck(all), h.diskCheck()}
}

// listed is a check with the things that are wrong, or with the word for none.
func listed(name, none string, wrong []string) check {
	if len(wrong) == 0 {
		return check{name: name, detail: none}
	}
	return check{name: name, bad: true, detail: strings.Join(wrong, "; ")}
}

func threadCheck(all health) check {
	var wrong []string
	for _, t := range all.Threads {
		if t.State != lifecycle.ThreadRunning.String() {
			line := t.Name + " is " + t.State
			if t.Cause != "" {
				line += ": " + oneLine(t.Cause)
			}
			wrong = append(wrong, line)
		}
	}
	return listed("threads", fmt.Sprintf("%d running", len(all.Threads)), wrong)
}

// oneLine keeps a text from looking like further checks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func (h *handler) storeCheck(r *http.Request) check {
	all, err := h.restores(r)
	if err != nil {
		return check{name: "stores", bad: true, detail: "whether any is restored is not known"}
	}
	var wrong []string
	for _, s := range all {
		line := fmt.Sprintf("%s partition %d is restored, %s", s.Store, s.Partition, query.Progressed(s.Progress))
		if s.Left > 0 {
			line += fmt.Sprintf(", %s left", s.Left.Round(time.Second/10))
		}
		wrong = append(wrong, line)
	}
	return listed("stores", "none is restored", wrong)
}

func stuckCheck(all health) check {
	var wrong []string
	for _, t := range all.Threads {
		if t.Stuck {
			wrong = append(wrong, t.Name+" has not stepped for too long")
		}
	}
	return listed("stuck", "no thread", wrong)
}

func quarantineCheck(all health) check {
	var wrong []string
	for _, q := range all.Quarantined {
		wrong = append(wrong, fmt.Sprintf("task %s at %s-%d offset %d, %d attempts", q.Task, q.Topic, q.Partition, q.Offset, q.Attempts))
	}
	return listed("quarantined", "no task", wrong)
}

func (h *handler) diskCheck() check {
	n, ok := h.node.(Checked)
	if !ok {
		return check{name: "disk", detail: "not looked at"}
	}
	var wrong []string
	for _, path := range n.DiskFull() {
		wrong = append(wrong, path+" waits for space")
	}
	return listed("disk", "nothing waits for space", wrong)
}
