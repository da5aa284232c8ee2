package cli

import (
	"context"
	"strings"
	"time"
)

type treeCmd struct {
	asking
}

// treeNode is one place of a node's tree, as the node tells of it.
type treeNode struct {
	Path       string      `json:"path"`
	Kind       string      `json:"kind"`
	State      string      `json:"state"`
	Epoch      int64       `json:"epoch"`
	Restarts   int64       `json:"restarts"`
	Cause      string      `json:"cause"`
	Retry      time.Time   `json:"retry"`
	Mailbox    int64       `json:"mailbox"`
	Stuck      bool        `json:"stuck"`
	Quarantine *quarantine `json:"quarantine"`
	Children   []treeNode  `json:"children"`
}

type quarantine struct {
	Source struct {
		Topic     string
		Partition int64
	} `json:"source"`
	Offset int64  `json:"offset"`
	Cause  string `json:"cause"`
}

func (c *treeCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/tree")
	if err != nil || p.raw(body) {
		return err
	}
	var root treeNode
	if err := understand(body, &root); err != nil {
		return err
	}
	return p.table([]string{"PATH", "STATE", "INCARNATION", "RESTARTS", "MAILBOX", "FLAGS", "CAUSE"}, root.rows(nil))
}

// rows are the place and what is below it.
func (n *treeNode) rows(rows [][]string) [][]string {
	epoch, state, cause := "-", n.State, n.Cause
	if n.Epoch > 0 {
		epoch = number(n.Epoch)
	}
	if state == "" {
		state = "-"
	}
	if n.Quarantine != nil {
		cause = n.Quarantine.Cause
	}
	rows = append(rows, []string{n.Path, state, epoch, number(n.Restarts), number(n.Mailbox), n.flags(), cause})
	for i := range n.Children {
		rows = n.Children[i].rows(rows)
	}
	return rows
}

// flags is what is true of it besides its state.
func (n *treeNode) flags() string {
	var flags []string
	if n.Stuck {
		flags = append(flags, "stuck")
	}
	if q := n.Quarantine; q != nil {
		flags = append(flags, "quarantined at "+q.Source.Topic+"-"+number(q.Source.Partition)+"@"+number(q.Offset))
	}
	if !n.Retry.IsZero() {
		flags = append(flags, "starts again at "+instant(n.Retry.UnixMilli()))
	}
	if len(flags) == 0 {
		return "-"
	}
	return strings.Join(flags, ", ")
}
