package cli

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

// progress shows how far a feed is.
type progress interface {
	// fed is told how many lines and bytes of all inputs have been gone through.
	fed(lines, bytes int64)
	done()
}

type quiet struct{}

func (quiet) fed(int64, int64) {}
func (quiet) done()            {}

// newProgress is a bar if w is a terminal, else a line now and then.
func newProgress(w io.Writer, say *talk, inputs []input) progress {
	total := int64(0)
	for _, in := range inputs {
		if in.size < 0 {
			total = -1
			break
		}
		total += in.size
	}
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return &bar{progressbar.NewOptions64(total, progressbar.OptionSetWriter(say.err), progressbar.OptionSetDescription("feeding"),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetRenderBlankState(true)), total}
	}
	return &steps{say: say, total: total, step: max(total/10, 1<<20)}
}

type bar struct {
	*progressbar.ProgressBar
	total int64
}

// fed moves the bar. A file that grew, or whose lines end in two bytes, makes the sum differ from the total a little.
func (b *bar) fed(_, bytes int64) {
	if b.total >= 0 {
		bytes = min(bytes, b.total)
	}
	_ = b.Set64(bytes)
}

func (b *bar) done() { _ = b.Finish() }

// steps prints a line each time another step of bytes is done.
type steps struct {
	say               *talk
	total, step, next int64
}

func (s *steps) fed(lines, bytes int64) {
	if bytes < s.next+s.step {
		return
	}
	s.next = bytes - bytes%s.step
	if s.total > 0 {
		s.say.ln("fed %d%%: %d lines, %d MB", min(100, 100*bytes/s.total), lines, bytes/1e6)
		return
	}
	s.say.ln("fed %d lines, %d MB", lines, bytes/1e6)
}

func (s *steps) done() {}
