package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// offered are the words that follow what is typed; the last word is under the cursor.
func offered(t *testing.T, words ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), testApp(), Process{Args: append([]string{"complete", "--"}, words...), Environ: func() []string { return nil }, Out: &out, Err: &errs})
	if code != 0 || errs.Len() > 0 {
		t.Fatalf("%q: %d %s", words, code, errs.String())
	}
	texts := []string{}
	for line := range strings.Lines(out.String()) {
		text, _, ok := strings.Cut(line, "\t")
		if !ok {
			t.Errorf("%q: %q has no tab", words, line)
		}
		texts = append(texts, text)
	}
	return texts
}

func TestCompletion(t *testing.T) {
	for _, test := range []struct{ typed, want string }{
		{"ge", "get"},
		{"t", "tree task topology"},
		{"nothing g", ""},
		{"comp", "completion"}, // and not what the scripts call
		{"task ", "list skip retry dead-letter"},
		{"task s", "skip"},
		{"completion ", "bash zsh fish"},
		{"run --gua", "--guarantee"},
		{"run --guarantee ", "exactly_once at_least_once"},
		{"run --guarantee at", "at_least_once"},
		{"run --guarantee=at", "--guarantee=at_least_once"},
		{"run --guarantee = at", "at_least_once"}, // as bash takes it apart
		{"run --guarantee =", "exactly_once at_least_once"},
		{"run --guarantee = at_least_once --log-l", "--log-level"},
		{"run --log-level ", "debug info warn error"},
		{"run --create", "--create-topics"},
		{"run --no-cre", "--no-create-topics"},
		{"run --state-dir ", ":directories"},
		{"run --config=x", ":files"},
		{"--config x.yaml ru", "run"},
		{"run --app ", ""},
		{"run --kafka-passw", "--kafka-password-file"}, // the secret itself is refused as a flag
		{"run --nothing=", ""},
		{"run -- --gua", ""},
		{"get ", "counts"},
		{"get c", "counts"},
		{"get --addr http : //h : 1 c", "counts"},
		{"get -o json ", "counts"},
		{"get -o j", "json"},
		{"get counts ", ""},
		{"owners counts k ", ""},
	} {
		words := strings.Split(test.typed, " ")
		if got := offered(t, words...); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%q: %q, want %q", test.typed, got, test.want)
		}
	}
	if got := offered(t); !slices.Contains(got, "run") || slices.Contains(got, "complete") {
		t.Error(got)
	}
}

// The names of verbs and flags that are offered are those that there are, for every verb.
func TestCompletionOffersEveryFlag(t *testing.T) {
	for _, verb := range []string{"run", "dev", "reset", "get"} {
		var want []string
		for _, f := range verbFlags(t, verb) {
			if !f.Hidden {
				want = append(want, "--"+f.Name)
			}
		}
		got := offered(t, verb, "--")
		for _, flag := range want {
			if !slices.Contains(got, flag) {
				t.Errorf("%s: %s is not offered", verb, flag)
			}
		}
	}
}

// asProgram is in the environment of the processes in which this test binary is an application of its own.
const asProgram = "MILLRACE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	os.Exit(Run(context.Background(), testApp(), Process{Args: os.Args[1:], Program: os.Args[0], Environ: func() []string { return nil }, Out: os.Stdout, Err: os.Stderr}))
}

// shellSays runs a script in a shell that finds a program of a user's own, "our-orders", and gives what it prints.
func shellSays(t *testing.T, shell, script string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the race detector makes each of the programs that the shell starts slow, and has nothing to find in them")
	}
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("there is no", shell, "here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, folder := range []string{"bin", "folder"} {
		if err := os.Mkdir(filepath.Join(home, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(self, filepath.Join(home, "bin", "our-orders")), os.WriteFile(filepath.Join(home, "node 1.yaml"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Join(home, "bin") + ":/usr/bin:/bin", asProgram + "=1", "TERM=dumb"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestCompletionInBash(t *testing.T) {
	got := shellSays(t, "bash", `
source <(our-orders completion bash)
registered=$(complete -p our-orders)
[[ $registered =~ -F\ ([a-z_]+) ]]
offer() { # what readline does when the key is pressed
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
  "${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  local IFS='|'; echo "${COMPREPLY[*]}"
}
offer our-orders ge
offer bin/our-orders task ''
offer '~/bin/our-orders' run --guarantee = at
offer our-orders get cou
offer our-orders run --config nod
offer our-orders run --config = nod
offer our-orders run --state-dir ''
offer our-orders nothing
`)
	if want := "get\nlist|skip|retry|dead-letter\nat_least_once\ncounts\nnode 1.yaml\nnode 1.yaml\nbin|folder\n\n"; strings.ReplaceAll(got, "folder|bin", "bin|folder") != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The functions of zsh's own system stand in for it: they need a terminal.
func TestCompletionInZsh(t *testing.T) {
	got := shellSays(t, "zsh", `
compdef() { handler=$1 }
compset() { return 0 }
_files() { echo "files $*" }
_describe() { print -rl -- "${(P@)4}" }
source <(our-orders completion zsh)
offer() { words=("$@"); CURRENT=$#; $handler }
offer our-orders ge
offer bin/our-orders run --guarantee=at
offer '~/bin/our-orders' get cou
offer our-orders run --state-dir ''
offer our-orders run --config=nod
`)
	want := "get:Ask a node for one key.\n--guarantee=at_least_once:What a crash may do to results: exactly_once or at_least_once.\n" +
		"counts:Store.\nfiles -/\nfiles \n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestCompletionInFish(t *testing.T) {
	got := shellSays(t, "fish", `
our-orders completion fish | source
for line in 'our-orders ge' 'our-orders run --guarantee=at' '~/bin/our-orders get cou' 'our-orders run --config nod' 'our-orders run --config=nod'
  complete -C $line
end
`)
	want := "get\tAsk a node for one key.\n--guarantee=at_least_once\tWhat a crash may do to results: exactly_once or at_least_once.\n" +
		"counts\tStore.\nnode 1.yaml\n--config=node 1.yaml\n"
	if got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestCompletionOfNoProgram(t *testing.T) {
	for program, want := range map[string]string{"/opt/$(reboot)": "is no word to a shell", "-x": "is no word to a shell", "C/orders.exe": "complete -F _millrace_orders orders\n", "": "complete -F _millrace_millrace millrace\n"} {
		var out, errs bytes.Buffer
		Run(t.Context(), testApp(), Process{Args: []string{"completion", "bash"}, Program: program, Environ: func() []string { return nil }, Out: &out, Err: &errs})
		if !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("%q: %s%s", program, out.String(), errs.String())
		}
	}
}
