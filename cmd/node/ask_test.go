package main

import (
	"os"
	"strings"
	"testing"
)

// A node with --remote answers other processes there, if they have the token, and names that address as the owner.
func TestProgramListensForOthers(t *testing.T) {
	token := private(t, []byte("a-secret-of-the-test\n"))
	d := startDev(t, "--remote", "127.0.0.1:0", "--remote-token-file", token)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, demo().Demo.Key, []string{"get", "counts", demo().Demo.Key, "--token-file", token}},
		{0, d.remote, []string{"owners", "counts", "--token-file", token}},
		{13, "bearer token", []string{"get", "counts", demo().Demo.Key}},
	} {
		p := begin(t, "demo", append(c.args, "--addr", d.remote)...)
		<-p.exited
		out, _ := p.out.read()
		errs, _ := p.err.read()
		if code := p.cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v: %d: %s%s", c.args, code, out, errs)
		}
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 {
		t.Fatal(got.err)
	}
}

// The program asks a node that runs in this process.
func TestProgramAsksANode(t *testing.T) {
	d := startDev(t)
	addr := strings.TrimPrefix(d.base, "http://")
	key := demo().Demo.Key
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, `"found":true,"key":"` + key + `"`, []string{"get", "counts", key, "-o", "json"}},
		{0, "(absent)", []string{"get", "counts", "absentword"}},
		{0, "key-value", []string{"stores"}},
		{0, "serving", []string{"owners", "counts", key}},
		{0, key, []string{"scan", "counts", "--prefix", key}},
		{13, "UnknownStateStore", []string{"get", "none", "x"}},
		{13, "InvalidQuery", []string{"scan", "counts", "--from", "u", "--to", "t"}},
		{2, "expected", []string{"get"}},
	} {
		args := c.args
		if c.code != 2 {
			args = append(args, "--addr", addr)
		}
		p := begin(t, "demo", args...)
		<-p.exited
		out, _ := p.out.read()
		errs, _ := p.err.read()
		if code := p.cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v: %d: %s%s", args, code, out, errs)
		}
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 {
		t.Fatal(got.err)
	}
	p := begin(t, "demo", "get", "counts", key, "--addr", addr)
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 12 {
		t.Errorf("nobody listens: %d", code)
	}
}
