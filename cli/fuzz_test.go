package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzConfiguration: whatever a configuration file holds, it is settings that can be run with, or one sentence about what is wrong.
func FuzzConfiguration(f *testing.F) {
	for _, text := range []string{"brokers: [a:1, b:2]\nthreads: 4\n", "brokers: a:1\ncommit-interval: 1s\nlog-level: debug\n", "a: &a [*a]\n", "brokers:\n", "? [x]\n: y\n",
		"brokers: a:1\ncreate-topics: maybe\n", "%YAML 9\n---\n", "state-dir: {x: 1}\n", "brokers: a:1\nlisten: ':'\n", "\xff\xfe", "---\n---\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := parse(testApp(), Process{Args: []string{"run", "--config", path}, Environ: func() []string { return nil }, Out: io.Discard, Err: io.Discard})
		var usage *UsageError
		switch {
		case err == nil && v == nil:
			t.Fatal("there is nothing to run, and nothing is said")
		case err != nil && (!errors.As(err, &usage) || sentence(err) == "" || strings.Contains(sentence(err), "goroutine")):
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzRecordName: what names a record is a topic, a partition and an offset that put it together again.
func FuzzRecordName(f *testing.F) {
	for _, name := range []string{"lines-3@41", "a-b-0@0", "-0@0", "lines-3@", "lines-99999999999@1", "a@b-1@2", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := parseRecord(name)
		var usage *UsageError
		switch {
		case err != nil && !errors.As(err, &usage):
			t.Fatal(err)
		case err == nil && (n.Topic == "" || n.Partition < 0 || n.Offset < 0 || !strings.HasPrefix(name, n.Topic+"-")):
			t.Fatalf("%q is %+v", name, n)
		}
	})
}
