package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace"
)

type treeCmd struct {
	asking
}

func (c *treeCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/tree")
	if err != nil || p.raw(body) {
		return err
	}
	var root millrace.Actor
	if err := understand(body, &root); err != nil {
		return err
	}
	return p.table([]string{"PATH", "STATE", "INCARNATION", "RESTARTS", "MAILBOX", "FLAGS", "CAUSE"}, rowsOf(&root, nil))
}

// rowsOf are the place and what is below it.
func rowsOf(n *millrace.Actor, rows [][]string) [][]string {
	epoch, state, cause := "-", n.State, n.Cause
	if n.Epoch > 0 {
		epoch = fmt.Sprint(n.Epoch)
	}
	if state == "" {
		state = "-"
	}
	if n.Quarantine != nil {
		cause = n.Quarantine.Cause
	}
	rows = append(rows, []string{n.Path, state, epoch, fmt.Sprint(n.Restarts), fmt.Sprint(n.Mailbox), flagsOf(n), short(cause)})
	for i := range n.Children {
		rows = rowsOf(&n.Children[i], rows)
	}
	return rows
}

// flagsOf is what is true of it besides its state.
func flagsOf(n *millrace.Actor) string {
	var flags []string
	if n.Stuck {
		flags = append(flags, "stuck")
	}
	if n.DiskFull {
		flags = append(flags, "waits for space on its disk")
	}
	if q := n.Quarantine; q != nil {
		flags = append(flags, "quarantined at "+at(q.Source, q.Offset))
	}
	if !n.Retry.IsZero() {
		flags = append(flags, "starts again at "+instant(n.Retry.UnixMilli()))
	}
	if len(flags) == 0 {
		return "-"
	}
	return strings.Join(flags, ", ")
}
