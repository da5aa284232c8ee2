package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

type getCmd struct {
	asking
	Store string `arg:"" help:"Store."`
	Key   string `arg:"" help:"Key, in its text form."`
}

type scanCmd struct {
	asking
	Store  string  `arg:"" help:"Store."`
	From   *string `help:"First key." placeholder:"KEY"`
	To     *string `help:"Last key." placeholder:"KEY"`
	Prefix *string `help:"What keys begin with." placeholder:"TEXT"`
	Limit  int     `help:"Most entries to print; 0 prints all." default:"100"`
}

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
	case "owners":
		g.Owners.keyed = strings.Contains(verb, "<key>")
		return &question{g.Owners.asking, &g.Owners.Store, out, g.Owners.ask}
	}
	return nil
}

// entry is a key as the node tells it.
type entry struct {
	Found     bool    `json:"found"`
	Key       string  `json:"key"`
	Value     *string `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Partition int32   `json:"partition"`
}

func (c *getCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/stores/"+escape(c.Store)+"/keys/"+escape(c.Key))
	if err != nil || p.raw(body) {
		return err
	}
	var e entry
	if err := understand(body, &e); err != nil {
		return err
	}
	if !e.Found {
		return p.table([]string{"KEY", "VALUE", "PARTITION"}, [][]string{{e.Key, "(absent)", number(int64(e.Partition))}})
	}
	return p.table(entryColumns, [][]string{e.row()})
}

// escape makes one part of a path. Dots too, because a part of one or two of them means something else.
func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

var entryColumns = []string{"KEY", "VALUE", "TIMESTAMP", "PARTITION"}

func (e entry) row() []string {
	value := ""
	if e.Value != nil {
		value = *e.Value
	}
	return []string{e.Key, value, number(e.Timestamp), number(int64(e.Partition))}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// path is the first page.
func (c *scanCmd) path() (string, error) {
	if c.Limit < 0 {
		return "", usagef("--limit %d is below zero; give a number of entries, or 0 for all", c.Limit)
	}
	if c.Prefix != nil && (c.From != nil || c.To != nil) {
		return "", usagef("--prefix and --from or --to do not go together; give one of them")
	}
	values, kind := url.Values{}, "all"
	for name, bound := range map[string]*string{"from": c.From, "to": c.To, "prefix": c.Prefix} {
		if bound != nil {
			values.Set(name, *bound)
			kind = "range"
		}
	}
	if c.Prefix != nil {
		kind = "prefix"
	}
	values.Set("limit", number(int64(pageOf(c.Limit))))
	return "/stores/" + escape(c.Store) + "/" + kind + "?" + values.Encode(), nil
}

// pageOf is how many entries to ask for at a time.
func pageOf(limit int) int {
	const page = 1000
	if limit == 0 {
		return page
	}
	return min(limit, page)
}

// ask prints page after page. What was printed stays printed if a later page fails.
func (c *scanCmd) ask(ctx context.Context, a *asker, p *printer) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	for printed := 0; path != ""; {
		body, err := a.get(ctx, path)
		if err != nil {
			return err
		}
		var page struct {
			Entries []json.RawMessage `json:"entries"`
			Next    string            `json:"next"`
		}
		if err := understand(body, &page); err != nil {
			return err
		}
		if c.Limit > 0 && len(page.Entries) > c.Limit-printed {
			page.Entries = page.Entries[:c.Limit-printed]
		}
		if err := p.entries(page.Entries, printed == 0); err != nil {
			return err
		}
		printed += len(page.Entries)
		if path = page.Next; c.Limit > 0 && printed == c.Limit {
			return nil
		}
	}
	return nil
}

func (c *storesCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/stores")
	if err != nil || p.raw(body) {
		return err
	}
	var stores []struct {
		Name       string `json:"name"`
		Kind       string `json:"kind"`
		KeyCodec   string `json:"key_codec"`
		ValueCodec string `json:"value_codec"`
		Partitions int64  `json:"partitions"`
	}
	if err := understand(body, &stores); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range stores {
		rows = append(rows, []string{s.Name, s.Kind, s.KeyCodec, s.ValueCodec, number(s.Partitions)})
	}
	return p.table([]string{"STORE", "KIND", "KEYS", "VALUES", "PARTITIONS"}, rows)
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
	type location struct {
		Partition int64  `json:"partition"`
		Owner     string `json:"owner"`
		Here      bool   `json:"here"`
		State     string `json:"state"`
		Thread    string `json:"thread"`
	}
	var all []location
	if c.keyed {
		all = make([]location, 1)
		err = understand(body, &all[0])
	} else {
		err = understand(body, &all)
	}
	var rows [][]string
	for _, l := range all {
		rows = append(rows, []string{number(l.Partition), l.Owner, strconv.FormatBool(l.Here), l.State, l.Thread})
	}
	if err != nil {
		return err
	}
	return p.table([]string{"PARTITION", "OWNER", "HERE", "STATE", "THREAD"}, rows)
}

func understand(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return failf(err, "the answer is not as a Millrace node of this release gives it")
	}
	return nil
}

// printer prints answers: JSON as the node gives it, one value a line, or a table.
type printer struct {
	out  io.Writer
	json bool
}

// raw prints an answer as it is, if that was asked for.
func (p *printer) raw(body []byte) bool {
	if p.json {
		fmt.Fprintf(p.out, "%s\n", body)
	}
	return p.json
}

func (p *printer) entries(list []json.RawMessage, first bool) error {
	var rows [][]string
	for _, raw := range list {
		if p.raw(raw) {
			continue
		}
		var e entry
		if err := understand(raw, &e); err != nil {
			return err
		}
		rows = append(rows, e.row())
	}
	switch {
	case p.json:
		return nil
	case first:
		return p.table(entryColumns, rows)
	}
	return p.table(nil, rows)
}

// table prints columns. Each page of a scan is aligned by itself.
func (p *printer) table(columns []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
	if columns != nil {
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	for _, row := range rows {
		for i, cell := range row {
			if strings.ContainsFunc(cell, unicode.IsControl) {
				row[i] = strconv.Quote(cell)
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
