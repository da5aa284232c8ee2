package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// The kinds of stores, as nodes name them.
const (
	windowKind  = "window"
	sessionKind = "session"
)

// times choose among windows and sessions.
type times struct {
	At      *string `help:"The window that begins then, or the sessions that hold this time: milliseconds since the Unix epoch, or RFC 3339." placeholder:"TIME"`
	Since   *string `help:"Windows that begin then or later, sessions that end then or later." placeholder:"TIME"`
	Until   *string `help:"Windows and sessions that begin then or earlier." placeholder:"TIME"`
	Reverse bool    `help:"From the last partition and key to the first."`
	Limit   int     `help:"Most entries to print; 0 prints all." default:"100"`
}

func (t *times) given() bool { return t.At != nil || t.Since != nil || t.Until != nil }

// values are the parameters for a store of a kind.
func (t *times) values(kind string) (url.Values, error) {
	v := url.Values{}
	switch {
	case t.Limit < 0:
		return nil, usagef("--limit %d is below zero; give a number of entries, or 0 for all", t.Limit)
	case t.given() && kind != windowKind && kind != sessionKind:
		return nil, usagef("the store is of kind %s and has no windows; leave out --at, --since and --until", kind)
	case t.At != nil && (t.Since != nil || t.Until != nil):
		return nil, usagef("--at and --since or --until do not go together; give one of them")
	}
	since, until := t.Since, t.Until
	if t.At != nil {
		since, until = t.At, t.At
	}
	names := map[string][2]string{windowKind: {"from", "to"}, sessionKind: {"earliest_end", "latest_start"}}[kind]
	for i, text := range []*string{since, until} {
		if text == nil {
			continue
		}
		ms, err := instantOf(*text)
		if err != nil {
			return nil, err
		}
		v.Set(names[i], number(ms))
	}
	if t.Reverse {
		v.Set("reverse", "true")
	}
	v.Set("limit", number(int64(pageOf(t.Limit))))
	return v, nil
}

// instantOf reads a time.
func instantOf(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, usagef("%q is no time; give milliseconds since the Unix epoch, or a time such as 2026-11-30T11:00:00Z", text)
	}
	return at.UnixMilli(), nil
}

// pageOf is how many entries to ask for at a time.
func pageOf(limit int) int {
	const page = 1000
	if limit == 0 {
		return page
	}
	return min(limit, page)
}

type getCmd struct {
	asking
	times
	Store string `arg:"" help:"Store."`
	Key   string `arg:"" help:"Key, in its text form. Of a window store: key@start for one window, key for all of the key; of a session store: key@start..end, or key."`
}

// one matches keys that name one window or session.
var one = map[string]*regexp.Regexp{windowKind: regexp.MustCompile(`@\d+$`), sessionKind: regexp.MustCompile(`@\d+\.\.\d+$`)}

func (c *getCmd) ask(ctx context.Context, a *asker, p *printer) error {
	kind, err := a.kind(ctx, c.Store)
	if err != nil {
		return err
	}
	values, err := c.values(kind)
	if err != nil {
		return err
	}
	store := "/stores/" + escape(c.Store)
	form := one[kind]
	switch {
	case form == nil || !c.given() && form.MatchString(c.Key):
		return c.point(ctx, a, p, store+"/keys/"+escape(c.Key))
	case kind == windowKind && c.At != nil:
		return c.point(ctx, a, p, store+"/keys/"+escape(c.Key+"@"+values.Get("from")))
	}
	return a.pages(ctx, p, kind, c.Limit, store+"/"+kind+"s/"+escape(c.Key)+"?"+values.Encode())
}

func (c *getCmd) point(ctx context.Context, a *asker, p *printer, path string) error {
	body, err := a.get(ctx, path)
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
	return p.table(entryColumns, [][]string{e.row("")})
}

type scanCmd struct {
	asking
	times
	Store  string  `arg:"" help:"Store."`
	From   *string `help:"First key; of windows and sessions without their times." placeholder:"KEY"`
	To     *string `help:"Last key; of windows and sessions without their times." placeholder:"KEY"`
	Prefix *string `help:"What keys begin with; not for windows and sessions." placeholder:"TEXT"`
}

// path is the first page.
func (c *scanCmd) path(kind string) (string, error) {
	values, err := c.values(kind)
	if err != nil {
		return "", err
	}
	if c.Prefix != nil && (c.From != nil || c.To != nil) {
		return "", usagef("--prefix and --from or --to do not go together; give one of them")
	}
	if _, windows := one[kind]; windows {
		return c.windowPath(kind, values)
	}
	route := "all"
	for name, bound := range map[string]*string{"from": c.From, "to": c.To, "prefix": c.Prefix} {
		if bound != nil {
			values.Set(name, *bound)
			route = "range"
		}
	}
	if c.Prefix != nil {
		route = "prefix"
	}
	return "/stores/" + escape(c.Store) + "/" + route + "?" + values.Encode(), nil
}

func (c *scanCmd) windowPath(kind string, values url.Values) (string, error) {
	if c.Prefix != nil {
		return "", usagef("--prefix is for stores of kind key-value, and %s is of kind %s; give --from and --to", c.Store, kind)
	}
	for name, bound := range map[string]*string{"key_from": c.From, "key_to": c.To} {
		if bound != nil {
			values.Set(name, *bound)
		}
	}
	return "/stores/" + escape(c.Store) + "/" + kind + "s?" + values.Encode(), nil
}

func (c *scanCmd) ask(ctx context.Context, a *asker, p *printer) error {
	if _, err := c.path(keyValueKind); err != nil && !c.given() {
		return err // it needs no node to be wrong
	}
	kind, err := a.kind(ctx, c.Store)
	if err != nil {
		return err
	}
	path, err := c.path(kind)
	if err != nil {
		return err
	}
	return a.pages(ctx, p, kind, c.Limit, path)
}

// kind is what kind of store it is; key-value if the node has none of that name, so that it is asked and says so.
func (a *asker) kind(ctx context.Context, store string) (string, error) {
	body, err := a.get(ctx, "/stores")
	if err != nil {
		return "", err
	}
	var stores []struct{ Name, Kind string }
	if err := understand(body, &stores); err != nil {
		return "", err
	}
	for _, s := range stores {
		if s.Name == store {
			return s.Kind, nil
		}
	}
	return keyValueKind, nil
}

// keyValueKind is the kind of stores without windows.
const keyValueKind = "key-value"

// batch is how many entries are printed at a time. The first of them decide the columns, so that pages of the node, which
// end where it likes, are not seen.
const batch = 1000

// pages prints the entries of page after page. What was read is printed if a later page fails.
func (a *asker) pages(ctx context.Context, p *printer, kind string, limit int, path string) error {
	var waiting []json.RawMessage
	for read := 0; path != "" && (limit == 0 || read < limit); {
		body, err := a.get(ctx, path)
		var page struct {
			Entries []json.RawMessage `json:"entries"`
			Next    string            `json:"next"`
		}
		if err == nil {
			err = understand(body, &page)
		}
		if err != nil {
			if len(waiting) > 0 {
				_ = p.rows(waiting, kind) // the failure is what the caller has to know
			}
			return err
		}
		if limit > 0 {
			page.Entries = page.Entries[:min(len(page.Entries), limit-read)]
		}
		read += len(page.Entries)
		if waiting, path = append(waiting, page.Entries...), page.Next; len(waiting) < batch {
			continue
		}
		if err := p.rows(waiting, kind); err != nil {
			return err
		}
		waiting = nil
	}
	if waiting == nil && p.widths != nil {
		return nil
	}
	return p.rows(waiting, kind)
}
