package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/kafka/embedded"
)

type result struct {
	code     int
	out, err string
}

func millrace(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	args = append(args, "--listen", "127.0.0.1:0")
	code := cli.Run(t.Context(), demo(), cli.Process{Args: args, Environ: patient, In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// reference counts with other means than the code under test, each file by itself.
func reference(files map[string][]byte) string {
	counts := map[string]int{}
	for _, b := range files {
		if bytes.IndexByte(b[:min(len(b), 8192)], 0) >= 0 {
			continue
		}
		for _, w := range regexp.MustCompile(`[A-Za-z]+`).FindAll(b, -1) {
			counts[strings.ToLower(string(w))]++
		}
	}
	var out strings.Builder
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "%s\t%d\n", w, counts[w])
	}
	return out.String()
}

// tree writes files that are odd in every way that the command line has to bear.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	long := 3 << 20
	if testing.Short() {
		long = 150_000
	}
	files := map[string][]byte{
		"plain.txt":          []byte("The quick brown fox\njumps over the lazy dog\n"),
		"empty":              nil,
		"newlines":           []byte("\n\n\n"),
		"no-newline":         []byte("ends in the middle of a wor"),
		"next-to-it":         []byte("d begins here\n"),
		"crlf.txt":           []byte("one\r\ntwo\r\n\r\nthree"),
		"sub/deep/invalid":   []byte("caf\xe9 \xff\xfeabc\xc3(def \xe2\x84\xaaelvin\n"),
		"sub/binary":         []byte("not\x00counted\n"),
		"sub/nul-later":      append(bytes.Repeat([]byte("early "), 2000), "nul\x00late\n"...),
		"sub/long":           []byte(strings.Repeat("Word, other-word; ", long/18) + "\nshort\n"),
		"sub/many":           []byte(strings.Repeat("a line of the many\n", 5000)),
		"name with space\t!": []byte("odd name\n"),
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("plain.txt", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOnceEqualsReference(t *testing.T) {
	dir := t.TempDir()
	files := tree(t, dir)
	got := millrace(t, "", "dev", "--once", "--input", dir)
	if got.code != 0 || !strings.Contains(got.err, "sub/binary is skipped") {
		t.Fatalf("code %d: %s", got.code, got.err)
	}
	if diff := cmp.Diff(reference(files), got.out); diff != "" {
		t.Fatal(diff)
	}
}

func TestOnceCountsStandardInput(t *testing.T) {
	for stdin, want := range map[string]string{"b a\nB": "a\t1\nb\t2\n", "": "", "\n 1 2 3": ""} {
		if got := millrace(t, stdin, "dev", "--once"); got.code != 0 || got.out != want {
			t.Errorf("%q: code %d, %q, want %q; %s", stdin, got.code, got.out, want, got.err)
		}
	}
}

func TestOnceRefusesAWordThatFitsNoRecord(t *testing.T) {
	got := millrace(t, "fine\n"+strings.Repeat("x", 2<<20), "dev", "--once")
	if got.code != 1 || got.out != "" || !strings.Contains(got.err, "line 2 has a word of more than") {
		t.Fatalf("code %d, %q: %s", got.code, got.out, got.err)
	}
}

func embed(t *testing.T) *embedded.Cluster {
	t.Helper()
	c, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func brokers(t *testing.T) string {
	t.Helper()
	return strings.Join(embed(t).Addrs(), ",")
}

func TestOnceGoesOnWithAnExistingApplication(t *testing.T) {
	dir, addrs := t.TempDir(), brokers(t)
	files := tree(t, dir)
	for _, state := range []string{"first", "first", "without local state"} {
		got := millrace(t, "", "dev", "--once", "--brokers", addrs, "--app", "again", "--state-dir", filepath.Join(t.TempDir(), state), "--input", dir)
		if got.code != 0 {
			t.Fatal(got.err)
		}
		if diff := cmp.Diff(reference(files), got.out); diff != "" {
			t.Fatal(diff)
		}
	}
	fresh := millrace(t, "only this", "dev", "--once", "--brokers", addrs)
	if fresh.code != 0 || fresh.out != "only\t1\nthis\t1\n" {
		t.Fatalf("a count without --app is not fresh: %d %q", fresh.code, fresh.err)
	}
}

// dev is a "dev" that keeps running.
type dev struct {
	base string
	// remote is the address for other processes; empty without --remote.
	remote string
	stop   chan os.Signal
	done   chan result
}

// startDev returns when the text is counted and the addresses are printed.
func startDev(t *testing.T, args ...string) *dev {
	t.Helper()
	r, w := io.Pipe()
	d := &dev{stop: make(chan os.Signal, 2), done: make(chan result, 1)}
	go func() {
		var errs bytes.Buffer
		code := cli.Run(context.Background(), demo(), cli.Process{Args: append([]string{"dev", "--listen", "127.0.0.1:0"}, args...),
			Environ: patient, Out: w, Err: &errs, Signals: d.stop})
		w.Close()
		d.done <- result{code: code, err: errs.String()}
	}()
	var out []byte
	for b := make([]byte, 4096); !bytes.Contains(out, []byte("Ctrl-C ends it.")); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("%v: %s %+v", err, out, <-d.done)
		}
		out = append(out, b[:n]...)
	}
	go io.Copy(io.Discard, r)
	if m := regexp.MustCompile(`Other processes:  (.*)`).FindSubmatch(out); m != nil {
		d.remote = string(m[1])
	}
	d.base = regexp.MustCompile(`http://[0-9.:]+`).FindString(string(out))
	return d
}

func (d *dev) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(d.base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// scan follows a scan from page to page and gives its entries as a count prints them.
func (d *dev) scan(t *testing.T, path string) string {
	t.Helper()
	var lines []string
	for path != "" {
		_, body := d.get(t, path)
		var page struct {
			Entries []struct{ Key, Value string }
			Next    string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, e := range page.Entries {
			lines = append(lines, e.Key+"\t"+e.Value+"\n")
		}
		path = page.Next
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestDevAnswersAndEndsCleanly(t *testing.T) {
	d := startDev(t)
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/stores/counts/keys/" + demo().Demo.Key: 200, "/stores/counts/keys/absentword": 404, "/stores/none/keys/x": 404,
		"/stores/counts/all?limit=5000": 200, "/stores/counts/range?from=t&to=u": 200, "/stores/counts/range?from=u&to=t": 400, "/stores/none/all": 404} {
		if code, body := d.get(t, path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	if got := d.scan(t, "/stores/counts/all?limit=3"); got != reference(map[string][]byte{"": []byte(demoText)}) {
		t.Errorf("all pages are %s", got)
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 {
		t.Fatal(got.err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://")); err == nil {
		t.Fatal("the port is still open")
	}
}

func TestDevFeedsAnApplicationOnce(t *testing.T) {
	addrs := brokers(t)
	var answers []string
	for range 2 {
		d := startDev(t, "--brokers", addrs, "--state-dir", t.TempDir())
		_, body := d.get(t, "/stores/counts/keys/"+demo().Demo.Key)
		answers = append(answers, body)
		d.stop <- os.Interrupt
		if got := <-d.done; got.code != 0 {
			t.Fatal(got.err)
		}
	}
	if answers[0] != answers[1] || !strings.Contains(answers[0], `"found":true`) {
		t.Fatalf("%q", answers)
	}
}

func TestBadSurroundings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addrs, dir := brokers(t), t.TempDir()
	d := startDev(t, "--brokers", addrs, "--state-dir", dir)
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"unreachable broker", "start Kafka there, or name another with --brokers", []string{"--brokers", "127.0.0.1:1", "--start-timeout", "300ms"}},
		{"unreachable broker, run", "start Kafka there, or name another with --brokers", []string{"run", "--brokers", "127.0.0.1:1", "--start-timeout", "300ms"}},
		{"state directory in use", dir, []string{"--brokers", addrs, "--state-dir", dir}},
		{"listen address in use", "nothing can listen on " + l.Addr().String(), []string{"--brokers", addrs, "--listen", l.Addr().String()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if args[0] != "run" {
				args = append([]string{"dev"}, args...)
			}
			if !slices.Contains(args, "--listen") {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			var errs bytes.Buffer
			code := cli.Run(t.Context(), demo(), cli.Process{Args: args, Environ: patient, Out: io.Discard, Err: &errs})
			line := errs.String()
			if code != 1 || strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "millrace: ") || !strings.Contains(line, c.want) {
				t.Errorf("code %d: %s, want %q", code, line, c.want)
			}
		})
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 {
		t.Fatal(got.err)
	}
}
