package cli

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// badValues are values that a setting cannot have, by its kind. A setting that takes any text has none.
func badValues(f *kong.Flag) []string {
	switch f.Target.Interface().(type) {
	case time.Duration:
		bad := []string{"", "soon", "5", "-1s", "0s"}
		if f.Name == "session-timeout" || f.Name == "request-timeout" {
			bad = append(bad, "1ms", "999ms", "25h")
		}
		return bad
	case slog.Level:
		return []string{"", "loud"}
	}
	switch {
	case f.Enum != "":
		return []string{"", "nonsense"}
	case f.Target.Kind() == reflect.Bool:
		return []string{"maybe", "2"}
	case f.Target.Kind() == reflect.Int:
		return []string{"", "many", "1.5", "0", "-1", "2000", "99999999999999999999"}
	case f.Target.Kind() == reflect.Int64:
		return []string{"", "64MiB", "1.5", "-1", "99999999999999999999"}
	case f.PlaceHolder == "HOST:PORT":
		return []string{"nowhere", ":", "host:port", "127.0.0.1:1:1", "127.0.0.1:99999", "127.0.0.1:-1"}
	case f.PlaceHolder == "FILE":
		return []string{"/absent", "/"}
	case f.Name == "state-dir":
		return []string{"/dev/null", "/dev/null/below"}
	case f.Name == "trace-endpoint":
		return []string{"127.0.0.1:4318", "collector", "ftp://a", "http://", "http://:4318", "http://me:hunter@a:1", "http://a/?b"}
	case f.Name == "trace-ratio":
		return []string{"", "much", "0", "-1", "1.1", "NaN", "Inf"}
	case f.Name == "client-id":
		return []string{"a/b", "a b", strings.Repeat("x", 101)}
	case f.Name == "app":
		return []string{"a/b", "..", strings.Repeat("x", 101)}
	case f.Name == "remote-token":
		return []string{"short"}
	}
	return nil
}

// anyText are the settings of "run" that take any text.
var anyText = []string{"kafka-server-name", "kafka-user", "kafka-password"}

// companions are settings without which another one says nothing.
var companions = map[string][]string{
	"kafka-cert": {"MILLRACE_KAFKA_KEY=/absent"}, "kafka-key": {"MILLRACE_KAFKA_CERT="}, "kafka-password-file": {"MILLRACE_KAFKA_USER=me"},
	"remote-token": {"MILLRACE_REMOTE=127.0.0.1:0"}, "remote-token-file": {"MILLRACE_REMOTE=127.0.0.1:0"}, "remote-cert": {"MILLRACE_REMOTE=127.0.0.1:0", "MILLRACE_REMOTE_KEY=/absent"},
	"remote-key": {"MILLRACE_REMOTE=127.0.0.1:0", "MILLRACE_REMOTE_CERT="}, "remote-ca": {"MILLRACE_REMOTE=127.0.0.1:0", "MILLRACE_REMOTE_CERT=", "MILLRACE_REMOTE_KEY="},
	"remote-advertised": {"MILLRACE_REMOTE=127.0.0.1:0"},
}

// allowing are the beginnings of what says what would be right.
var allowing = []string{"; give ", " give ", "must be one of", "use ", "go together"}

// Every value that a setting cannot have, from every layer, is one sentence that names the setting and what is allowed, and
// exit code 2. The values come from the grammar: a flag that is new is tried, or has to be named above.
func TestEveryBadValueIsOneSentence(t *testing.T) {
	cert, key := certified(t)
	for _, f := range verbFlags(t, "run") {
		if (badValues(f) == nil) != slices.Contains(anyText, f.Name) {
			t.Errorf("nobody knows what --%s refuses", f.Name)
		}
		named := variable(f.Name) + "="
		base := []string{"MILLRACE_BROKERS=a:1"}
		for _, c := range companions[f.Name] {
			switch {
			case strings.HasSuffix(c, "CERT="):
				c += cert
			case strings.HasSuffix(c, "KEY="):
				c += key
			}
			base = append(base, c)
		}
		for _, v := range badValues(f) {
			if !testing.Short() {
				refused(t, f.Name, v, named, commanded(t, append(base, named+v), "check"))
			}
			refused(t, f.Name, v, "", commanded(t, base, "check", "--"+f.Name+"="+v))
		}
	}
}

// refused holds that got is the complaint about a value; from is its variable, empty for the command line.
func refused(t *testing.T, name, value, from string, got outcome) {
	t.Helper()
	told := name != "config" && name != "remote-token" && !strings.Contains(got.err, "go together") // these sentences begin with something else
	if named := strings.Contains(got.err, "("+variable(name)+")"); told && named != (from != "") {
		t.Errorf("--%s %q from %q: %s", name, value, from, got.err)
	}
	allowed := slices.ContainsFunc(allowing, func(word string) bool { return strings.Contains(got.err, word) })
	if got.code != exitUsage || got.out != "" || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, "--"+name) || !allowed {
		t.Errorf("--%s %q: code %d, %s", name, value, got.code, got.err)
	}
}

// What YAML can say and a setting cannot be.
func TestFileValuesOfTheWrongShape(t *testing.T) {
	for file, says := range map[string]string{
		"app:\n":         "--app has no value in the configuration file",
		"state-dir: [a]": "--state-dir has a list in the configuration file",
		"threads: many":  "give a whole number",
		"app: {a: b}":    `there is no setting "app.a"`,
		"leave: perhaps": "give true or false",
	} {
		code, out, complaints := checked(t, "brokers: [a:1]\n"+file, nil)
		if code != exitUsage || out != "" || !strings.Contains(unattributed(complaints), says) || strings.Count(complaints, "\n") != 1 {
			t.Errorf("%s: %d %s, want %q", file, code, complaints, says)
		}
	}
}
