package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

type checkCmd struct {
	settings
	Output string `help:"Form of the list: table or json." short:"o" enum:"table,json" default:"table"`
}

// effectiveSetting is a setting as "run" would have it.
type effectiveSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source is the layer that it comes from: command line, environment, file or default; a later one covers an earlier one.
	Source string `json:"source"`
}

// checking is a verb that ends well only if "run" with the same settings would begin. It asks no cluster.
type checking struct {
	command
	rows []effectiveSetting
	json bool
}

func (c *checking) run(context.Context) error {
	if _, err := c.app.Topology(c.appID()); err != nil {
		return failf(err, "the topology cannot be built; mend the application")
	}
	if c.json {
		e := json.NewEncoder(c.proc.Out)
		e.SetIndent("", "  ")
		return e.Encode(c.rows)
	}
	w := tabwriter.NewWriter(c.proc.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, r := range c.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Name, r.Value, r.Source)
	}
	return w.Flush()
}

// hidden stands for a secret that is set.
const hidden = "(hidden)"

// effective are the settings of the selected verb, each with the layer that it comes from.
func effective(ctx *kong.Context, l *layers) (rows []effectiveSetting) {
	for _, f := range ctx.Selected().Flags {
		if f.Name == "output" {
			continue
		}
		row := effectiveSetting{Name: f.Name, Value: spelled(ctx.FlagValue(f)), Source: sourceOf(ctx, l, f)}
		if row.Value != "" && strings.HasSuffix(f.Name, "token") {
			row.Value = hidden
		}
		rows = append(rows, row)
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
