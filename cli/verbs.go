package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"
)

type storesCmd struct {
	asking
}

type ownersCmd struct {
	asking
	Store string `arg:"" help:"Store."`
	Key   string `arg:"" optional:"" help:"Key, in its text form; without it, all partitions."`
	keyed bool
}

// verb is a parsed command line that is ready to run.
type verb interface {
	run(ctx context.Context) error
}

// question is a verb that asks a node.
type question struct {
	asking
	// about is the store; nil if the question is about all.
	about *string
	out   io.Writer
	ask   func(ctx context.Context, a *asker, p *printer) error
}

func (q *question) run(ctx context.Context) error {
	if q.about != nil && *q.about == "" {
		return usagef("the name of the store is empty; give one that millrace stores prints")
	}
	a, err := q.open()
	if err != nil {
		return err
	}
	defer a.close()
	return q.ask(ctx, a, &printer{out: q.out, json: q.Output == "json"})
}

// asks is the question of a verb, or nil if the verb is none.
func (g *grammar) asks(verb string, out io.Writer) *question {
	switch strings.Fields(verb)[0] {
	case "get":
		return &question{g.Get.asking, &g.Get.Store, out, g.Get.ask}
	case "scan":
		return &question{g.Scan.asking, &g.Scan.Store, out, g.Scan.ask}
	case "stores":
		return &question{g.Stores.asking, nil, out, g.Stores.ask}
	case "tree":
		return &question{g.Tree.asking, nil, out, g.Tree.ask}
	case "task":
		asking, ask := g.Task.asks(strings.Fields(verb)[1:])
		return &question{asking, nil, out, ask}
	case "owners":
		g.Owners.keyed = strings.Contains(verb, "<key>")
		return &question{g.Owners.asking, &g.Owners.Store, out, g.Owners.ask}
	}
	return nil
}

// escape makes one part of a path. Dots too, because a part of one or two of them means something else.
func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

func (c *storesCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/stores")
	if err != nil || p.raw(body) {
		return err
	}
	var stores []struct {
		Name       string `json:"name"`
		Kind       string `json:"kind"`
		KeyText    string `json:"key_text"`
		KeyCodec   string `json:"key_codec"`
		ValueCodec string `json:"value_codec"`
		Partitions int64  `json:"partitions"`
		Global     bool   `json:"global"`
	}
	if err := understand(body, &stores); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range stores {
		if s.Global {
			s.Kind += ", global"
		}
		rows = append(rows, []string{s.Name, s.Kind, s.KeyText, s.KeyCodec, s.ValueCodec, number(s.Partitions)})
	}
	return p.table([]string{"STORE", "KIND", "KEY", "KEY CODEC", "VALUE CODEC", "PARTITIONS"}, rows)
}

// location is who has a partition, as the node that was asked knows it.
type location struct {
	Partition int64  `json:"partition"`
	Owner     string `json:"owner"`
	Here      bool   `json:"here"`
	State     string `json:"state"`
	Thread    string `json:"thread"`
}

func (c *ownersCmd) ask(ctx context.Context, a *asker, p *printer) error {
	path := "/owners/" + escape(c.Store)
	if c.keyed {
		path += "/keys/" + escape(c.Key)
	}
	body, err := a.get(ctx, path)
	if err != nil || p.raw(body) {
		return err
	}
	var all []location
	if c.keyed {
		all = make([]location, 1)
		err = understand(body, &all[0])
	} else {
		err = understand(body, &all)
	}
	if err != nil {
		return err
	}
	var rows [][]string
	for _, l := range all {
		rows = append(rows, l.row(a.address))
	}
	return p.table([]string{"PARTITION", "OWNER", "HERE", "STATE", "THREAD"}, rows)
}

// row is the location as columns. What the node that was asked does with a partition of another one, nothing or nothing any
// more, says nothing about the partition.
func (l location) row(asked string) []string {
	owner, state, thread := l.Owner, l.State, l.Thread
	switch {
	case l.Here && owner == "":
		owner = asked
	case !l.Here && state != "standby":
		state, thread = "elsewhere", "-"
		if owner == "" {
			owner, state = "(not known)", "not here"
		}
	}
	return []string{number(l.Partition), owner, strconv.FormatBool(l.Here), state, thread}
}

func understand(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return failf(err, "the answer is not as a Millrace node of this release gives it")
	}
	return nil
}
