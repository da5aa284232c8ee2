package exposition_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// row matches a line of the table in docs/metrics.md: the name, and the labels behind app.
var row = regexp.MustCompile("(?m)^\\| `(millrace_[a-z_]+)` \\| `[a-z.]+` \\| [a-zA-Z]* \\| ([a-z, ]*) \\|")

// known are the labels of each metric that there is: the page's, those of every target, and up of the target itself.
func known(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	target := []string{"instance", "job"}
	metrics := map[string][]string{"up": target}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := append(append([]string{"app"}, target...), strings.Split(m[2], ", ")...)
		if !strings.HasSuffix(m[1], "_seconds") { // what else is in seconds is a counter
			metrics[m[1]] = labels
			continue
		}
		metrics[m[1]+"_sum"], metrics[m[1]+"_count"], metrics[m[1]+"_bucket"] = labels, labels, append([]string{"le"}, labels...)
	}
	if len(metrics) < 40 {
		t.Fatalf("the page lists %v only", metrics)
	}
	return metrics
}

// The parser is metricsql's, whose language is a superset of PromQL. Prometheus' own would drag a hundred modules and
// another gRPC into go.mod, which the actors do not stand. So what is PromQL is a short list, and a range is asked for where
// metricsql would make one up.
var (
	ranged     = []string{"rate", "increase", "delta"}
	aggregates = []string{"sum", "max"}
)

// expression is checked against the metrics that there are. labels are those of its result; the error names all that is wrong.
func expression(expr string, metrics map[string][]string) (labels []string, err error) {
	parsed, err := metricsql.Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(expr+": "+format, args...)) }
	found := 0
	metricsql.VisitAll(parsed, func(e metricsql.Expr) { // leaves first
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			found++
			labels = append(labels, selector(e, metrics, wrong)...)
		case *metricsql.FuncExpr:
			if e.Name == "histogram_quantile" {
				if !slices.Contains(labels, "le") {
					wrong("there are no buckets to take a quantile of")
				}
				labels = slices.DeleteFunc(labels, func(l string) bool { return l == "le" })
				return
			}
			if r, ok := e.Args[0].(*metricsql.RollupExpr); !slices.Contains(ranged, e.Name) || !ok || r.Window == nil {
				wrong("%s is not one of %v over a range", e.Name, ranged)
			}
		case *metricsql.AggrFuncExpr:
			if !slices.Contains(aggregates, e.Name) || e.Modifier.Op != "by" || e.Limit != 0 {
				wrong("%s is not one of %v by labels", e.Name, aggregates)
			}
			for _, l := range e.Modifier.Args {
				if !slices.Contains(labels, l) {
					wrong("nothing in it has the label %s", l)
				}
			}
			labels = slices.Clone(e.Modifier.Args)
		}
	})
	if found == 0 {
		wrong("it names no metric")
	}
	return labels, errors.Join(errs...)
}

// selector is checked for its metric and its labels.
func selector(e *metricsql.MetricExpr, metrics map[string][]string, wrong func(format string, args ...any)) []string {
	if len(e.LabelFilterss) != 1 || e.LabelFilterss[0][0].Label != "__name__" {
		wrong("%s is not one metric", e.AppendString(nil))
		return nil
	}
	name := e.LabelFilterss[0][0].Value
	labels, ok := metrics[name]
	if !ok {
		wrong("there is no %s", name)
	}
	for _, f := range e.LabelFilterss[0][1:] {
		if !slices.Contains(labels, f.Label) {
			wrong("%s has no label %s", name, f.Label)
		}
	}
	return labels
}

// ruleFile is what Prometheus takes as alert rules; other fields are refused.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			For                 string
			Labels, Annotations map[string]string
		}
	}
}

var labelOf = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsAreOfWhatIsMeasured(t *testing.T) {
	text, err := os.ReadFile("../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	metrics, seen := known(t), map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
				t.Error(r.Alert, err)
			}
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Millrace") || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%+v", r)
			}
			seen[r.Alert] = true
			labels, err := expression(r.Expr, metrics)
			if err != nil {
				t.Error(r.Alert, err)
			}
			for _, name := range []string{"summary", "description"} {
				annotation(t, r.Alert, r.Annotations[name], labels)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %v", seen)
	}
}

// annotation is a template of Prometheus', which knows the labels of the expression's result.
func annotation(t *testing.T, alert, text string, labels []string) {
	t.Helper()
	tmpl, err := template.New(alert).Parse(`{{$labels := .Labels}}{{$value := .Value}}` + text)
	if err == nil {
		err = tmpl.Execute(new(bytes.Buffer), map[string]any{"Labels": map[string]string{}, "Value": 1.5})
	}
	if err != nil || text == "" {
		t.Errorf("%s: %q: %v", alert, text, err)
	}
	for _, m := range labelOf.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(labels, m[1]) {
			t.Errorf("%s: %q: the alert has the labels %v", alert, text, labels)
		}
	}
}

// dashboard is what is looked at of Grafana's model.
type dashboard struct {
	Title, UID string
	Templating struct{ List []struct{ Name string } }
	Panels     []struct {
		ID                       int
		Title, Type, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ Expr, LegendFormat, RefID string }
	}
}

var (
	variable = regexp.MustCompile(`\$\{?([a-z]+)\b`)
	legendOf = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

func TestDashboardShowsWhatIsMeasured(t *testing.T) {
	text, err := os.ReadFile("../deploy/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	variables := []string{}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(variables, m[1]) {
			t.Errorf("there is no variable %s", m[1])
		}
	}
	metrics, ids, graphs := known(t), map[int]bool{}, 0
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%+v", p)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		graphs++
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%+v", p)
		}
		for _, target := range p.Targets {
			labels, err := expression(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), metrics)
			if err != nil {
				t.Error(p.Title, err)
			}
			for _, m := range legendOf.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: the legend %q of a series with the labels %v", p.Title, target.LegendFormat, labels)
				}
			}
		}
	}
	if graphs < 15 {
		t.Errorf("only %d graphs", graphs)
	}
}

// The checks refuse what is wrong; without this, checks that take everything would look like good files.
func TestWrongExpressionsAreRefused(t *testing.T) {
	metrics := known(t)
	for _, wrong := range []string{"rate(", "sum by (app) (rate(millrace_nothing_total[5m]))", "sum by (store) (rate(millrace_task_records_total[5m]))",
		`millrace_task_lag{thread="x"}`, "rate(millrace_task_records_total)", "median by (app) (millrace_task_lag)", "keep_last_value(millrace_task_lag[5m])", "1 + 1"} {
		if _, err := expression(wrong, metrics); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
