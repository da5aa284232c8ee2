package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fence matches a block of code: what is said about it, and its text.
var fence = regexp.MustCompile("(?ms)^```(\\w+)([^\n]*)\n(.*?)^```$")

// terminal runs the commands of docs/start.md.
type terminal struct {
	t *testing.T
	// bin is where what the page builds goes; address is where the program of the first terminal listens.
	bin, address string
	// first is the program of the first terminal, nil if there is none; out is what it prints.
	first *exec.Cmd
	out   *bufio.Reader
}

// Every command of docs/start.md does and prints what the page says.
func TestStartHere(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs anew")
	}
	page, err := os.ReadFile("../../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	term, ran, printed := &terminal{t: t, bin: t.TempDir()}, 0, ""
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		about, body := strings.Fields(m[2]), m[3]
		switch {
		case m[1] == "text" && len(about) > 0: // what is said at the end
			term.compare(body, term.interrupt())
		case m[1] == "text":
			term.compare(body, printed)
			printed = ""
		case m[1] == "sh" && len(about) > 0:
			if ran++; printed != "" {
				t.Errorf("the page does not show what was printed before %s: %s", body, printed)
			}
			printed = term.do(about, body)
		}
	}
	if ran < 10 || term.first != nil {
		t.Errorf("%d blocks of commands were run; a program goes on: %t", ran, term.first != nil)
	}
}

func (x *terminal) do(about []string, script string) string {
	if about[0] == "stays" {
		return x.begin(script)
	}
	return x.run(script, about[1:])
}

func (x *terminal) command(script string) *exec.Cmd {
	script = strings.ReplaceAll(script, "bin/", x.bin+"/")
	// Linking without what debuggers read takes half the time.
	env := append(os.Environ(), "MILLRACE_LISTEN=127.0.0.1:0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w")
	if x.address != "" {
		script = strings.ReplaceAll(script, "127.0.0.1:8080", x.address)
		env = append(env, "MILLRACE_ADDR="+x.address)
	}
	c := exec.Command("sh", "-c", script)
	c.Dir, c.Env = "../..", env
	return c
}

// run runs commands to their end and returns what they print: on standard error, if they are to fail with a code.
func (x *terminal) run(script string, code []string) string {
	x.t.Helper()
	var out, errs bytes.Buffer
	c := x.command("set -e\n" + script)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if len(code) > 0 && strconv.Itoa(c.ProcessState.ExitCode()) == code[0] {
		return errs.String()
	}
	if err != nil || len(code) > 0 {
		x.t.Errorf("%s: %v, want code %v: %s%s", script, err, code, out.String(), errs.String())
	}
	return out.String()
}

// begin runs a program that goes on, and returns what it prints until it has said how to end it.
func (x *terminal) begin(script string) string {
	x.first = x.command("exec " + script)
	x.first.Stderr = os.Stderr
	pipe, err := x.first.StdoutPipe()
	if err == nil {
		err = x.first.Start()
	}
	if err != nil {
		x.t.Fatal(err)
	}
	running := x.first
	x.t.Cleanup(func() { _ = running.Process.Kill() }) // one that has ended is not killed
	x.out = bufio.NewReader(pipe)
	said := x.until("Ctrl-C ends it.\n")
	if m := regexp.MustCompile(`curl http://([0-9.:]+)/readyz`).FindStringSubmatch(said); m != nil {
		x.address = m[1]
	}
	return said
}

// until returns the lines that the first program prints, up to one or to its end.
func (x *terminal) until(last string) (said string) {
	for {
		line, err := x.out.ReadString('\n')
		if said += line; err != nil || line == last {
			return said
		}
	}
}

// interrupt is Ctrl-C in the first terminal; it returns what is printed from then on.
func (x *terminal) interrupt() string {
	if err := x.first.Process.Signal(os.Interrupt); err != nil {
		x.t.Fatal(err)
	}
	said := x.until("")
	if err := x.first.Wait(); err != nil {
		x.t.Error(err)
	}
	x.first = nil
	return said
}

// compare says whether the page shows what was printed. Three dots stand for anything, and spaces only separate.
func (x *terminal) compare(page, printed string) {
	x.t.Helper()
	if x.address != "" {
		printed = strings.ReplaceAll(printed, x.address, "127.0.0.1:8080")
	}
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	want := strings.ReplaceAll(regexp.QuoteMeta(words(page)), "…", ".*")
	if !regexp.MustCompile("^" + want + "$").MatchString(words(printed)) {
		x.t.Errorf("the page shows\n%s\nbut this is printed:\n%s", page, printed)
	}
}
