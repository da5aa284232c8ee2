package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// part is a command that is run again and again with other seeds. It ends with a line of figures, name=number, and exits with
// 1 if anything was wrong.
type part struct {
	name string
	// args are its arguments; takes is how many seeds it uses up.
	args  func(s sizes, seed uint64) []string
	takes func(s sizes) uint64
	// bad are the figures that have to be 0.
	bad []string
}

var parts = []part{
	{"sim", func(s sizes, seed uint64) []string {
		return []string{"-seeds", strconv.Itoa(s.seeds), "-first", strconv.FormatUint(seed, 10)}
	}, func(s sizes) uint64 { return uint64(s.seeds) }, []string{"violations"}},
	{"chaos", func(s sizes, seed uint64) []string {
		return []string{"-cycles", strconv.Itoa(s.cycles), "-seed", strconv.FormatUint(seed, 10)}
	}, one, []string{"violations"}},
	{"storm", func(s sizes, seed uint64) []string {
		return []string{"-duration", s.storm.String(), "-least", strconv.Itoa(s.least), "-seed", strconv.FormatUint(seed, 10)}
	}, one, []string{"untyped", "late", "lies"}},
}

func one(sizes) uint64 { return 1 }

func partOf(name string) *part {
	for i := range parts {
		if parts[i].name == name {
			return &parts[i]
		}
	}
	return nil
}

// outcome is what one run of a part has told.
type outcome struct {
	figures map[string]int64
	took    time.Duration
	takes   uint64
	wrong   *violation
}

// figure is a word of a line of figures. What is no whole number, as a rate, is not added up.
var figure = regexp.MustCompile(`^([a-z_]+)=(\d+)$`)

// run runs a part from a seed on. The outcome is nil if ctx ended before; the error is of a command that cannot be run.
func (p *part) run(ctx context.Context, bin string, s settings, seed uint64) (*outcome, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, p.name), p.args(s.sizes, seed)...)
	grouped(cmd)
	cmd.WaitDelay = time.Minute // it wipes what it has started
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil && !errors.As(err, &exit):
		return nil, fmt.Errorf("%s cannot be run: %w", p.name, err)
	}
	o := &outcome{figures: p.read(text.String()), took: time.Since(began), takes: p.takes(s.sizes)}
	if why := p.judge(o.figures, err); why != "" {
		command := "go run ./internal/" + p.name + " " + strings.Join(p.args(s.sizes, seed), " ")
		o.wrong = &violation{Part: p.name, Command: command, Why: why, Said: tail(text.String())}
	}
	return o, nil
}

// read gives the figures of the last line that has the part's bad ones.
func (p *part) read(text string) map[string]int64 {
	figures := map[string]int64{}
	for line := range strings.Lines(text) {
		if !strings.Contains(line, p.bad[0]+"=") {
			continue
		}
		clear(figures)
		for word := range strings.FieldsSeq(line) {
			if m := figure.FindStringSubmatch(word); m != nil {
				n, err := strconv.ParseInt(m[2], 10, 64)
				if err == nil && m[1] != "seeds_per_hour" {
					figures[m[1]] = n
				}
			}
		}
	}
	return figures
}

// judge says what is wrong, if anything is. A command that fails without a violation, because it hung or because nothing was
// tried, has proved nothing, and that is wrong too.
func (p *part) judge(figures map[string]int64, err error) string {
	for _, name := range p.bad {
		n, told := figures[name]
		if !told {
			return fmt.Sprintf("it has not said %s=", name)
		}
		if n > 0 {
			return fmt.Sprintf("%s=%d", name, n)
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// tailBytes is how much of what a command said last is kept of one that was wrong.
const tailBytes = 4000

func tail(text string) string {
	if len(text) > tailBytes {
		text = strings.ToValidUTF8("…"+text[len(text)-tailBytes:], "")
	}
	return text
}
