package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
)

var errCrash = errors.New("crash")

// fakeLog is a topic in memory.
type fakeLog struct {
	partitions [][]record.Raw
	// room is how many records it still takes before it fails.
	room int
}

func (l *fakeLog) Append(_ context.Context, partition int32, r *record.Raw) error {
	if l.room--; l.room < 0 {
		return errCrash
	}
	kept := record.Raw{Value: bytes.Clone(r.Value), Offset: int64(len(l.partitions[partition]))}
	for _, h := range r.Headers {
		kept.Headers = append(kept.Headers, record.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	l.partitions[partition] = append(l.partitions[partition], kept)
	return nil
}

func (l *fakeLog) Flush(context.Context) error { return nil }
func (l *fakeLog) Close() error                { return nil }

// feed feeds the inputs into the log, behind what it has.
func (l *fakeLog) feed(inputs []input) error {
	f := &feed{appID: "app", sink: l, last: make([]*position, len(l.partitions)), now: time.Now, tell: func(int64, int64) {}, warn: func(string, ...any) {}}
	for i, p := range l.partitions {
		if len(p) > 0 {
			at, err := positionOf(&p[len(p)-1])
			if err != nil {
				return err
			}
			f.last[i] = &at
		}
	}
	return f.run(context.Background(), inputs)
}

func newLog(partitions, room int) *fakeLog {
	return &fakeLog{partitions: make([][]record.Raw, partitions), room: room}
}

const plenty = 1 << 30

// lines gives what the log holds, each line with its name, sorted.
func (l *fakeLog) lines(t rapid.TB) (out []string) {
	for _, p := range l.partitions {
		for i := range p {
			at, err := positionOf(&p[i])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s:%d.%d %s", at.file, at.line, at.part, p[i].Value))
		}
	}
	slices.Sort(out)
	return out
}

func source(path, text string) input {
	return input{path: path, size: int64(len(text)), open: func() io.Reader { return strings.NewReader(text) }}
}

// A feed that is killed loses the last batches of any partition, each on its own. Fed again, every line is there once.
func TestFeedResumesWhereEachPartitionEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inputs []input
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 3*chunkLines), 1, 6).Draw(t, "lines of each file") {
			inputs = append(inputs, source(fmt.Sprintf("/file-%d", i), strings.Repeat("a line\n", n)))
		}
		partitions := rapid.IntRange(1, 4).Draw(t, "partitions")
		whole := newLog(partitions, plenty)
		if err := whole.feed(inputs); err != nil {
			t.Fatal(err)
		}
		log := newLog(partitions, 0)
		for range rapid.IntRange(0, 3).Draw(t, "crashes") {
			log.room = rapid.IntRange(0, 3000).Draw(t, "room")
			if err := log.feed(inputs); err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			for i, p := range log.partitions {
				log.partitions[i] = p[:len(p)-rapid.IntRange(0, len(p)).Draw(t, "lost")]
			}
		}
		log.room = plenty
		if err := log.feed(inputs); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.lines(t), log.lines(t)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFeedTwiceDoublesNothing(t *testing.T) {
	log, a, b := newLog(4, plenty), source("/a", "1\n2\n3\n"), source("/b", "4\n")
	for _, inputs := range [][]input{{a}, {a}, {a, b}, {a, b}} {
		if err := log.feed(inputs); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.lines(t); len(got) != 4 {
		t.Fatalf("%q", got)
	}
}

func TestFeedRefusesToSkipWhatWasNotFed(t *testing.T) {
	a, b, c := source("/a", "1\n"), source("/b", "2\n"), source("/c", "3\n")
	for name, second := range map[string][]input{"/c, which is not among the inputs": {a, b}, "other files than these before /c": {b, c}, "which the file no longer has": {a, source("/c", "")}} {
		log := newLog(1, plenty)
		if err := log.feed([]input{a, c}); err != nil {
			t.Fatal(err)
		}
		err := log.feed(second)
		var failure *FailureError
		if !errors.As(err, &failure) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
		if got := log.lines(t); len(got) != 2 {
			t.Errorf("%q was fed in spite of %v", got, err)
		}
	}
}

func TestPositionOfForeignRecords(t *testing.T) {
	order := record.Header{Key: headerOrder, Value: []byte("1234")}
	file := record.Header{Key: headerFile, Value: []byte("/a")}
	for name, h := range map[string]record.Headers{"none": nil, "no order": {file}, "no line": {file, order}, "no number": {file, order, {Key: headerLine, Value: []byte("x")}}} {
		if _, err := positionOf(&record.Raw{Headers: h}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFeedSplitsLongLines(t *testing.T) {
	log := newLog(1, plenty)
	text := strings.Repeat("word ", 3<<20/5) + "\nend"
	if err := log.feed([]input{source("/long", text)}); err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for _, r := range log.partitions[0] {
		if len(r.Value) > recordLimit {
			t.Fatalf("a record of %d bytes", len(r.Value))
		}
		whole = append(whole, r.Value...)
	}
	if n := len(log.partitions[0]); n < 4 || string(whole) != strings.Replace(text, "\n", "", 1) {
		t.Fatalf("%d records, %d bytes of %d", n, len(whole), len(text)-1)
	}
}

func TestFindInputs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a/z.txt", "a/y.txt"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "b.txt"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ paths, want string }{
		{".", "a/y.txt a/z.txt b.txt"},
		{"b.txt a b.txt .", "b.txt a/y.txt a/z.txt"},
		{"link", "b.txt"},
	} {
		var paths, got []string
		for _, p := range strings.Fields(c.paths) {
			paths = append(paths, filepath.Join(dir, p))
		}
		inputs, err := findInputs(paths)
		if err != nil {
			t.Fatal(err)
		}
		real, _ := filepath.EvalSymlinks(dir)
		for _, in := range inputs {
			name, _ := filepath.Rel(real, in.path)
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.paths, got, c.want)
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	text := strings.Repeat("func (c *Context) Resolve() error { // a line\n", 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	f := &feed{sink: discard{}, last: make([]*position, 4), now: time.Now, tell: func(int64, int64) {}}
	for b.Loop() {
		if err := f.run(b.Context(), []input{source("/file", text)}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Append(context.Context, int32, *record.Raw) error { return nil }
func (discard) Flush(context.Context) error                      { return nil }
func (discard) Close() error                                     { return nil }
