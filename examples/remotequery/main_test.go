package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// asProgram makes the test binary the program itself: what it shows is two processes.
const asProgram = "MILLRACE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

func TestAnActorProgramAsksByPID(t *testing.T) {
	node := program("dev", "--listen", "127.0.0.1:0", "--remote", "127.0.0.1:0")
	var errs bytes.Buffer
	node.Stderr = &errs
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Process.Kill() })
	address, lines := "", bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		if m := regexp.MustCompile(`Other processes: +(.*)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	for key, want := range map[string]string{"lamp": `^lamp: 5, says remotequery/query/stock/0 at `, "sofa": `^sofa: no such key, says remotequery/query/stock/2 at `} {
		got, err := program("ask", address, key).CombinedOutput()
		if err != nil || !regexp.MustCompile(want).Match(got) || !strings.HasSuffix(strings.TrimSpace(string(got)), address) {
			t.Errorf("%s: %s, %v; the node said %s", key, got, err, errs.String())
		}
	}
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // all that it says, up to its end
	}
	if err := node.Wait(); err != nil {
		t.Error(err, errs.String())
	}
}
