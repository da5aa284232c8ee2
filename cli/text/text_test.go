package text_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/cli/text"
)

func ExampleWords() {
	for w := range text.Words("The quick brown FOX isn't 2 quick.") {
		fmt.Print(w, " ")
	}
	// Output: the quick brown fox isn t quick
}

func ExampleLines() {
	lines := text.NewLines(strings.NewReader("one\r\ntwo three\nfour"), 6)
	for p, err := lines.Next(); err == nil; p, err = lines.Next() {
		fmt.Printf("%d.%d %q\n", p.Line, p.Part, p.Text)
	}
	// Output:
	// 1.1 "one"
	// 2.1 "two "
	// 2.2 "three"
	// 3.1 "four"
}

var letters = regexp.MustCompile(`[A-Za-z]+`)

// words is the reference: written with other means than the code under test.
func words(b []byte) []string {
	var out []string
	for _, w := range letters.FindAll(b, -1) {
		out = append(out, string(bytes.Map(func(r rune) rune { return r | 0x20 }, w)))
	}
	return out
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", ""},
		{"a", "a"},
		{"  A  b-C\tdé", "a b c d"},
		{"\xff\xfeZ\xc3(", "z"},
		{"\u212aelvin is no \u212a but K", "elvin is no but k"},
		{"İstanbul", "stanbul"},
		{"x\x00y", "x y"},
		{"@[`{AZaz", "azaz"},
	} {
		got := strings.Join(slices.Collect(text.Words(c.line)), " ")
		if got != c.want {
			t.Errorf("Words(%q) = %q, want %q", c.line, got, c.want)
		}
	}
}

func TestWordsStopsWhenAsked(t *testing.T) {
	for w := range text.Words("one two") {
		if w != "one" {
			t.Fatalf("went on with %q", w)
		}
		break
	}
}

func TestWordsEqualReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOf(rapid.Byte()).Draw(t, "line")
		if diff := cmp.Diff(words(line), slices.Collect(text.Words(string(line)))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("Hello, Wörld \xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if diff := cmp.Diff(words(line), slices.Collect(text.Words(string(line)))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestWordsAllocateOncePerLine(t *testing.T) {
	for line, want := range map[string]float64{"all of it in lower case": 0, "Not all of It": 1} {
		got := testing.AllocsPerRun(100, func() {
			for w := range text.Words(line) {
				_ = w
			}
		})
		if got > want {
			t.Errorf("%q: %v allocations, want at most %v", line, got, want)
		}
	}
}

// pieces reads everything; the error is nil if the source ended.
func pieces(src io.Reader, limit int) (out []text.Piece, err error) {
	lines := text.NewLines(src, limit)
	for {
		p, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		p.Text = bytes.Clone(p.Text)
		out = append(out, p)
	}
}

// checkPieces compares with the simple way: split at newlines, then look at each line's parts.
func checkPieces(t rapid.TB, source []byte, limit int, got []text.Piece) {
	t.Helper()
	want := bytes.Split(source, []byte("\n"))
	if len(want[len(want)-1]) == 0 {
		want = want[:len(want)-1]
	}
	for n, line := range want {
		var whole []byte
		var counted []string
		for part := 1; len(got) > 0 && got[0].Line == n+1; part++ {
			p := got[0]
			got = got[1:]
			if p.Part != part || len(p.Text) > limit {
				t.Fatalf("line %d: part %d, want %d, with %d bytes of at most %d", n+1, p.Part, part, len(p.Text), limit)
			}
			whole = append(whole, p.Text...)
			counted = append(counted, words(p.Text)...)
		}
		if trim := bytes.TrimSuffix(line, []byte("\r")); !bytes.Equal(whole, trim) && !bytes.Equal(whole, line) {
			t.Fatalf("line %d is %q, want %q", n+1, whole, line)
		}
		if diff := cmp.Diff(words(line), counted); diff != "" {
			t.Fatalf("line %d: %s", n+1, diff)
		}
	}
	if len(got) > 0 {
		t.Fatalf("more pieces than lines: %+v", got)
	}
}

func TestLinesEqualReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := []byte(rapid.StringOf(rapid.RuneFrom([]rune("ab \r\n\n.ü"))).Draw(t, "source"))
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		got, err := pieces(iotest.OneByteReader(bytes.NewReader(source)), limit)
		if err != nil {
			var long *text.WordTooLongError
			if !errors.As(err, &long) || !hasWord(source, limit) {
				t.Fatalf("%q: %v", source, err)
			}
			return
		}
		checkPieces(t, source, limit, got)
		again, _ := pieces(bytes.NewReader(source), limit)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatal("another way to read gives other pieces: ", diff)
		}
	})
}

func hasWord(source []byte, longer int) bool {
	return slices.ContainsFunc(letters.FindAll(source, -1), func(w []byte) bool { return len(w) > longer })
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a bc\r\ndef\xff\xff\xff\xff\xff\n\ng"), 3)
	f.Fuzz(func(t *testing.T, source []byte, limit int) {
		limit = 1 + max(limit, -limit, 0)%4096
		got, err := pieces(bytes.NewReader(source), limit)
		if err != nil {
			if !hasWord(source, limit) {
				t.Fatal(err)
			}
			return
		}
		checkPieces(t, source, limit, got)
	})
}

func TestLinesOfAWordThatIsTooLong(t *testing.T) {
	got, err := pieces(strings.NewReader("fine\nno "+strings.Repeat("o", 11)), 10)
	var long *text.WordTooLongError
	if !errors.As(err, &long) || long.Line != 2 || long.Limit != 10 {
		t.Fatalf("%v", err)
	}
	if len(got) != 2 || string(got[1].Text) != "no " {
		t.Fatalf("%+v", got)
	}
}

func TestLinesGiveTheSourcesError(t *testing.T) {
	broken := errors.New("the disk is gone")
	got, err := pieces(io.MultiReader(strings.NewReader("one\ntwo"), iotest.ErrReader(broken)), 10)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Fatalf("%v after %+v: half a line must not pass for a line", err, got)
	}
}

func TestLinesReset(t *testing.T) {
	lines := text.NewLines(strings.NewReader("one\ntwo\n"), 10)
	if _, err := lines.Next(); err != nil {
		t.Fatal(err)
	}
	lines.Reset(strings.NewReader("three\n"))
	if p, err := lines.Next(); err != nil || p.Line != 1 || string(p.Text) != "three" {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

var benchText = strings.Repeat("func (c *Context) Resolve() error { // Flag has already been set, on the command-line.\n", 1000)

func BenchmarkWords(b *testing.B) {
	lines := strings.Split(benchText, "\n")
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, line := range lines {
			for w := range text.Words(line) {
				n += len(w)
			}
		}
	}
}

func BenchmarkLines(b *testing.B) {
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	lines := text.NewLines(nil, 1<<20)
	src := strings.NewReader("")
	for b.Loop() {
		src.Reset(benchText)
		lines.Reset(src)
		for {
			if _, err := lines.Next(); err != nil {
				break
			}
		}
	}
}
