package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/topology"
)

// A program of its own goes by its own name in usage, errors and help, and does not promise to count text if it counts none.
func TestProgramsGoByTheirOwnNames(t *testing.T) {
	app := testApp()
	app.Demo = nil
	for _, args := range [][]string{{"--help"}, {"dev", "--help"}, {"run", "--help"}, {"run", "--nonsense"}, {"run", "--threads", "x"}, {"nonsense"}, {"check"}, {"run", "--config", "/absent"}} {
		var out, errs bytes.Buffer
		Run(t.Context(), app, Process{Args: args, Program: "/opt/bin/shop", Environ: func() []string { return nil }, Out: &out, Err: &errs})
		text := out.String() + errs.String()
		if !strings.Contains(text, "shop") || strings.Contains(text, "millrace ") || strings.Contains(text, "millrace:") || strings.Contains(text, "text to count") {
			t.Errorf("%v: %s", args, text)
		}
	}
	if text := commanded(t, nil, "--help").out; !strings.Contains(text, "Usage: millrace") || !strings.Contains(text, "text to count") {
		t.Error(text)
	}
}

// A complaint about a value names the place that it was written in, also if the value is read well and wrong.
func TestComplaintsNameTheirSource(t *testing.T) {
	for _, c := range []struct {
		file string
		env  []string
		args []string
		want string
	}{
		{"threads: many\n", nil, nil, "--threads (threads in "},
		{"threads: 0\n", nil, nil, "--threads (threads in "},
		{"threads: 1\n", []string{"MILLRACE_THREADS=x"}, nil, "--threads (MILLRACE_THREADS): "},
		{"", []string{"MILLRACE_SESSION_TIMEOUT=1ms"}, nil, "--session-timeout (MILLRACE_SESSION_TIMEOUT) 1ms is out of bounds"},
		{"state-dir: /dev/null/x\n", nil, nil, "--state-dir (state-dir in "},
		{"threads: 1\n", []string{"MILLRACE_THREADS=1"}, []string{"--threads", "x"}, "--threads: "},
	} {
		code, _, complaints := checked(t, "brokers: [a:1]\n"+c.file, c.env, c.args...)
		if code != exitUsage || !strings.Contains(complaints, c.want) || strings.Count(complaints, "\n") != 1 {
			t.Errorf("%+v: %d %s", c, code, complaints)
		}
		if _, _, run := given(t, "run", "brokers: [a:1]\n"+c.file, c.env, c.args...); normal(run) != normal(complaints) {
			t.Errorf("%+v: run says %s", c, run)
		}
	}
}

// What is made up at the start is shown as it will be.
func TestCheckShowsWhatIsMadeUp(t *testing.T) {
	_, out, complaints := checked(t, "brokers: [a:1]\n", nil, "-o", "json")
	var rows []effectiveSetting
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err, complaints)
	}
	for _, r := range rows {
		want := map[string]string{"app": "test", "state-dir": "/millrace", "listen": "127.0.0.1:8080", "store-cache-bytes": "67108864"}[r.Name]
		if !strings.Contains(r.Value, want) || want != "" && r.Source != "default" {
			t.Errorf("%+v, want %s", r, want)
		}
	}
}

// A --remote that somebody has is as much a failure as a --listen, and no mistake in the settings: the next start may have it.
func TestRemoteOnATakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--remote", "--listen"} {
		args := []string{"run", "--brokers", "127.0.0.1:1", "--state-dir", t.TempDir(), "--listen", "127.0.0.1:0", flag, taken.Addr().String()}
		w := newWorld()
		var out, errs bytes.Buffer
		code := Run(t.Context(), testApp(), Process{Args: args, Environ: func() []string { return nil }, Out: &out, Err: &errs, world: portWorld{w}})
		if code != exitFailure || !strings.Contains(errs.String(), "give "+flag+" another address") || !strings.Contains(errs.String(), "address already in use") {
			t.Errorf("%s: %d %s", flag, code, errs.String())
		}
	}
}

// portWorld is a world with nodes as they are.
type portWorld struct{ *fakeWorld }

// Node implements world.
func (portWorld) Node(appID string, t *topology.Topology, s nodeSettings) (node, error) {
	return real{}.Node(appID, t, s)
}

// A cause of any length leaves a row of a table on a screen.
func TestTablesCutCauses(t *testing.T) {
	cause := strings.Repeat("ä", 300)
	rows := rowsOf(&millrace.Actor{Path: "/", Cause: cause}, nil)
	if got := rows[0][len(rows[0])-1]; utf8.RuneCountInString(got) != longestCause || !strings.HasSuffix(got, "ä…") {
		t.Error(got)
	}
	if short("brief") != "brief" {
		t.Error(short("brief"))
	}
}

// What brokers say of a session that they do not take is told with the setting that it comes from.
func TestRefusedSessionTimeoutNamesItsSetting(t *testing.T) {
	w := newWorld()
	w.runErr = fmt.Errorf("thread-1: %w", &broker.Error{Code: invalidSessionTimeout, Class: broker.Fatal})
	var out, errs bytes.Buffer
	code := Run(t.Context(), testApp(), Process{Args: []string{"run", "--brokers", "a:1", "--session-timeout", "10h", "--listen", "127.0.0.1:0"},
		Environ: func() []string { return nil }, Out: &out, Err: &errs, world: w})
	if code != exitFailure || !strings.Contains(errs.String(), "--session-timeout 10h0m0s") {
		t.Errorf("%d %s", code, errs.String())
	}
}
