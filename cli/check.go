package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/millrace-io/millrace"
)

type checkCmd struct {
	settings
	creation
	Output string `help:"Form of the list: table or json." short:"o" enum:"table,json" default:"table"`
}

// effectiveSetting is a setting as "run" would have it.
type effectiveSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source is the layer that it comes from: command line, environment, file or default; an earlier one covers a later one.
	Source string `json:"source"`
}

// checking is a verb that ends well only if "run" with the same settings would begin. It asks no cluster.
type checking struct {
	command
	rows []effectiveSetting
	json bool
}

func (c *checking) run(context.Context) error {
	t, err := c.app.build(c.appID())
	if err != nil {
		return err
	}
	s := nodeSettings{settings: c.settings, createTopics: c.CreateTopics, brokers: c.Brokers, stateDir: c.StateDir}
	opts, err := s.node()
	if err == nil {
		err = millrace.Check(c.appID(), t, opts...)
	}
	if err != nil {
		return &UsageError{Detail: err.Error(), Cause: err}
	}
	c.fill()
	if c.json {
		e := json.NewEncoder(c.proc.Out)
		e.SetIndent("", "  ")
		return e.Encode(c.rows)
	}
	var rows [][]string
	for _, r := range c.rows {
		rows = append(rows, []string{r.Name, r.Value, r.Source})
	}
	p := &printer{out: c.proc.Out}
	return p.table([]string{"SETTING", "VALUE", "SOURCE"}, rows)
}

// fill shows what "run" takes where nothing is set, and the default is made up at the start.
func (c *checking) fill() {
	dir, _, _ := c.stateDir(c.appID())
	made := map[string]string{
		"app": c.appID(), "state-dir": dir, "store-cache-bytes": number(c.storeCache()),
		"listen": fmt.Sprintf("127.0.0.1:%d to %d", firstPort, lastPort),
	}
	for i := range c.rows {
		if value, ok := made[c.rows[i].Name]; ok && c.rows[i].Source == "default" {
			c.rows[i].Value = value
		}
	}
}

// effective are the settings of the selected verb, each with the layer that it comes from.
func effective(ctx *kong.Context, l *layers) (rows []effectiveSetting) {
	for _, f := range ctx.Selected().Flags {
		if f.Name == "output" {
			continue
		}
		rows = append(rows, effectiveSetting{Name: f.Name, Value: spelled(ctx.FlagValue(f)), Source: sourceOf(ctx, l, f)})
	}
	return rows
}

func spelled(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(value)
}

func sourceOf(ctx *kong.Context, l *layers, f *kong.Flag) string {
	given := func(p *kong.Path) bool { return p.Flag == f && !p.Resolved }
	switch {
	case slices.ContainsFunc(ctx.Path, given):
		return "command line"
	case l.environment != nil && l.environment.Exists(f.Name):
		return "environment"
	case l.file != nil && l.file.Exists(f.Name):
		return "file"
	}
	return "default"
}
