package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/cli"
)

// reset gives the verb arguments and what is typed.
func reset(t *testing.T, typed string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), demo(), cli.Process{Args: append([]string{"reset"}, args...), Environ: patient, In: strings.NewReader(typed), Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// steps are the actions of a plan, each with what it is about.
func steps(t *testing.T, r result) map[string]string {
	t.Helper()
	var plan []struct{ Action, On, Detail string }
	if err := json.Unmarshal([]byte(r.out), &plan); r.code != 0 || err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	all := map[string]string{}
	for _, s := range plan {
		all[s.Action+" "+s.On] = s.Detail
	}
	return all
}

// An application that was reset counts everything once more, to the same result; until then nothing is changed by looking,
// by a wrong confirmation, or while a node runs.
func TestReset(t *testing.T) {
	addrs, dir := brokers(t), t.TempDir()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("b a b\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	once := func() {
		t.Helper()
		if got := millrace(t, "", "dev", "--once", "--brokers", addrs, "--app", "again", "--state-dir", dir, "--input", text); got.code != 0 || got.out != "a\t1\nb\t2\nc\t1\n" {
			t.Fatalf("%+v", got)
		}
	}
	once()
	args := []string{"--brokers", addrs, "--app", "again", "--state-dir", dir}
	looked := reset(t, "", append(args, "-o", "json")...)
	plan := steps(t, looked)
	fed := ""
	for step, detail := range plan {
		if strings.HasPrefix(step, "set offset again-lines-") && strings.HasPrefix(detail, "2 -> ") {
			fed = step
		}
	}
	if len(plan) != 8 || plan["delete group again"] == "" || plan[fed] != "2 -> 0" || plan["delete topic again-words-repartition"] != "4 partitions" ||
		plan["delete topic again-counts-changelog"] != "4 partitions" || plan["delete directory "+filepath.Join(dir, "again")] == "" {
		t.Fatalf("%q", plan)
	}
	if !strings.Contains(looked.out, `"detail": "2 -> 0",
    "from": 2,
    "to": 0`) {
		t.Errorf("%s", looked.out)
	}
	if latest := steps(t, reset(t, "", append(args, "-o", "json", "--to-latest")...)); latest[fed] != "2 -> 2" {
		t.Errorf("%q", latest)
	}
	for typed, more := range map[string]string{"agai\n": "--execute", "": "--execute", "again\n": "--execute --confirm other", "again": "--confirm again", "x": "--to-latest --to-earliest"} {
		if got := reset(t, typed, append(args, strings.Fields(more)...)...); got.code != 2 {
			t.Errorf("%s: %+v", more, got)
		}
	}
	p := begin(t, "demo", "dev", "--brokers", addrs, "--app", "again", "--state-dir", t.TempDir())
	p.await(p.out, "Ctrl-C ends it.")
	if got := reset(t, "", append(args, "--execute", "--confirm", "again")...); got.oneSentence(1, "application again has 1 member in its group") != nil {
		t.Errorf("%+v", got)
	}
	p.end()
	if again := reset(t, "", append(args, "-o", "json")...); again.out != looked.out {
		t.Fatalf("it has changed:\n%s\n%s", looked.out, again.out)
	}
	if got := reset(t, "again\n", append(args, "--execute")...); got.code != 0 || !strings.HasSuffix(got.err, "Done.\n") {
		t.Fatalf("%+v", got)
	}
	plan = steps(t, reset(t, "", append(args, "-o", "json")...))
	if len(plan) != 5 || plan[fed] != "0 -> 0" {
		t.Fatalf("%q", plan)
	}
	once()
	if got := reset(t, "", append(args, "--execute", "--confirm", "again", "--to-latest")...); got.code != 0 || !strings.HasPrefix(got.out, "ACTION") {
		t.Fatalf("%+v", got)
	}
	if got := steps(t, reset(t, "", append(args, "-o", "json", "--to-latest")...)); got[fed] != "2 -> 2" {
		t.Errorf("%q", got)
	}
	if got := reset(t, "", "--app", "again"); got.oneSentence(2, "reset needs a Kafka cluster") != nil {
		t.Errorf("%+v", got)
	}
}

// Another program than the one that runs as the application changes nothing, because what it would leave is counted twice; what is
// named with --keep may be left.
func TestResetByAnotherProgram(t *testing.T) {
	addrs, dir := brokers(t), t.TempDir()
	if got := millrace(t, "b a b", "dev", "--once", "--brokers", addrs, "--app", "again", "--state-dir", dir); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	create(t, addrs, nil, "again-events")
	as := func(app cli.App, more ...string) result {
		t.Helper()
		var out, errs bytes.Buffer
		args := append([]string{"reset", "--brokers", addrs, "--app", "again", "--state-dir", dir}, more...)
		code := cli.Run(t.Context(), app, cli.Process{Args: args, Environ: patient, In: strings.NewReader(""), Out: &out, Err: &errs})
		return result{code, out.String(), errs.String()}
	}
	before := reset(t, "", "--brokers", addrs, "--app", "again", "--state-dir", dir).out
	now := []string{"--execute", "--confirm", "again"}
	for _, c := range []struct {
		keep, says string
		code       int
	}{
		{"", "the group again has read again-lines, again-words-repartition, and the topology of this program reads again-events", 1},
		{"again-lines", "has read again-words-repartition,", 1},
		{"again-lines,again-w*", "there is again-counts-changelog, and the topology of this program names again-latest-changelog", 1},
		{"again-[", "--keep", 2},
	} {
		if got := as(variant("latest:text"), append(now, "--keep", c.keep)...); got.oneSentence(c.code, c.says) != nil || got.out != "" {
			t.Errorf("%q: %+v", c.keep, got)
		}
	}
	if after := reset(t, "", "--brokers", addrs, "--app", "again", "--state-dir", dir).out; after != before {
		t.Fatalf("it has changed:\n%s\n%s", before, after)
	}
	if got := as(variant("latest:text"), append(now, "--keep", "again-*")...); got.code != 0 || !strings.Contains(got.out, "delete group") {
		t.Errorf("%+v", got)
	}
	if got := reset(t, "", "--brokers", addrs, "--app", "no-such", "--state-dir", dir, "--execute"); got.code != 0 || !strings.HasPrefix(got.err, "Nothing is there for application no-such") {
		t.Errorf("%+v", got)
	}
}
