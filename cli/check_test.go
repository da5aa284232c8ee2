package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checked is what check says with a file of settings, an environment and arguments.
func checked(t *testing.T, file string, env []string, args ...string) (code int, out, complaints string) {
	t.Helper()
	return given(t, "check", file, env, args...)
}

// given is what a verb says with them.
func given(t *testing.T, verb, file string, env []string, args ...string) (code int, out, complaints string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	code = Run(context.Background(), testApp(), Process{Args: append([]string{verb, "--config", path}, args...),
		Environ: func() []string { return env }, In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// squeezed is a table with one space between its cells.
func squeezed(table string) string {
	return regexp.MustCompile(` +`).ReplaceAllString(table, " ")
}

// normal is a complaint without the directory of the file.
func normal(complaint string) string {
	return regexp.MustCompile(`\S*/node.yaml`).ReplaceAllString(complaint, "node.yaml")
}

// unattributed is a complaint without the place that the setting was read from.
func unattributed(complaint string) string {
	return regexp.MustCompile(`^(\S+ --\S+) \([a-z-]+ in [^)]*\)`).ReplaceAllString(complaint, "$1")
}

func TestCheckShowsWhereSettingsComeFrom(t *testing.T) {
	code, out, complaints := checked(t, "brokers: [a:1, b:2]\nthreads: 3\napp: from-file\nremote: 127.0.0.1:7000\n",
		[]string{"MILLRACE_APP=from-environment", "MILLRACE_REMOTE_TOKEN=0123456789abcdef", "MILLRACE_THREADS=4"}, "--threads", "5", "-o", "json")
	if code != 0 {
		t.Fatal(code, complaints)
	}
	var rows []effectiveSetting
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	got := map[string]effectiveSetting{}
	for _, r := range rows {
		got[r.Name] = r
	}
	for _, want := range []effectiveSetting{{"brokers", "a:1,b:2", "file"}, {"threads", "5", "command line"}, {"app", "from-environment", "environment"},
		{"commit-interval", "100ms", "default"}, {"remote", "127.0.0.1:7000", "file"}, {"remote-token", hidden, "environment"}, {"remote-cert", "", "default"}} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
	}
	if strings.Contains(out, "0123456789abcdef") {
		t.Error("a secret is shown")
	}
	if _, out, _ = checked(t, "brokers: [a:1]\n", nil); !strings.Contains(squeezed(out), "\nbrokers a:1 file\n") || !strings.HasPrefix(out, "SETTING") {
		t.Error(out)
	}
}

// What run would refuse, check refuses with the same sentence.
func TestCheckRefusesWhatRunDoes(t *testing.T) {
	for file, want := range map[string]string{
		"threads: 1\n":                                           "name it with --brokers",
		"brokers: [a:1]\nthreads: 0\n":                           "--threads 0 is too few",
		"brokers: [a:1]\nthread: 1\n":                            `there is no setting "thread"`,
		"brokers: [a:1]\nguarantee: twice\n":                     "--guarantee must be one of",
		"brokers: [a]\n":                                         `--brokers "a" is no address`,
		"brokers: [a:1]\ncommit-interval: 0s\n":                  "--commit-interval 0s is not above zero",
		"brokers: [a:1]\ncommit-interval: soon\n":                "--commit-interval",
		"brokers: [a:1]\nlisten: 0.0.0.0:8080\n":                 "other machines can reach --listen 0.0.0.0:8080",
		"brokers: [a:1]\nremote: 0.0.0.0:7000\n":                 "--remote 0.0.0.0:7000",
		"brokers: [a:1]\nremote: 127.0.0.1:1\nremote-token: x\n": "remote-token is refused in the configuration file",
		"brokers: [a:1]\nlog-level: loud\n":                      "--log-level",
		"brokers: [a:1]\ncommit-interval: 1m\n":                  "--commit-interval 1m0s is too long for a transaction; give 30s or less",
		"brokers: [a:1]\nthreads: 2000\n":                        "--threads 2000 are too many; give 1 to 1024",
		"brokers: [a:1]\napp: a/b\n":                             `--app "a/b" is no name`,
	} {
		code, out, complaints := checked(t, file, nil)
		if _, _, run := given(t, "run", file, nil); normal(run) != normal(complaints) {
			t.Errorf("%q: run says %q, and check %q", file, run, complaints)
		}
		if code != 2 || out != "" || !strings.Contains(unattributed(complaints), want) || strings.Count(complaints, "\n") != 1 {
			t.Errorf("%q: %d %q %q, want %q", file, code, out, complaints, want)
		}
	}
}
