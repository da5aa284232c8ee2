package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printer prints answers: JSON as the node gives it, one value a line, or a table.
type printer struct {
	out  io.Writer
	json bool
	// widths are those of the columns of the table that is being printed; nil before its first rows.
	widths []int
}

// raw prints an answer as it is, if that was asked for.
func (p *printer) raw(body []byte) bool {
	if p.json {
		fmt.Fprintf(p.out, "%s\n", body)
	}
	return p.json
}

// entry is a key, a window or a session as the node tells it.
type entry struct {
	Found     bool    `json:"found"`
	Key       string  `json:"key"`
	Start     *int64  `json:"start"`
	End       *int64  `json:"end"`
	Value     *string `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Partition int32   `json:"partition"`
}

var (
	entryColumns  = []string{"KEY", "VALUE", "TIMESTAMP", "PARTITION"}
	windowColumns = []string{"WINDOW", "FROM", "TO", "VALUE", "TIMESTAMP", "PARTITION"}
)

// columns are those of the entries of a store of a kind.
func columns(kind string) []string {
	if kind == windowKind || kind == sessionKind {
		return windowColumns
	}
	return entryColumns
}

// row is the entry as columns. A window is named as get takes it.
func (e entry) row(kind string) []string {
	value := ""
	if e.Value != nil {
		value = *e.Value
	}
	rest := []string{value, number(e.Timestamp), number(int64(e.Partition))}
	if e.Start == nil || e.End == nil {
		return append([]string{e.Key}, rest...)
	}
	name := e.Key + "@" + number(*e.Start)
	if kind == sessionKind {
		name += ".." + number(*e.End)
	}
	return append([]string{name, instant(*e.Start), instant(*e.End)}, rest...)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// rows prints entries of a scan. The first call prints the head and decides how wide the columns are.
func (p *printer) rows(list []json.RawMessage, kind string) error {
	var rows [][]string
	for _, raw := range list {
		if p.raw(raw) {
			continue
		}
		var e entry
		if err := understand(raw, &e); err != nil {
			return err
		}
		rows = append(rows, e.row(kind))
	}
	switch {
	case p.json:
		return nil
	case p.widths == nil:
		return p.table(columns(kind), rows)
	}
	return p.lines(rows)
}

// table prints a head and rows.
func (p *printer) table(columns []string, rows [][]string) error {
	p.widths = make([]int, len(columns))
	for _, row := range append([][]string{columns}, rows...) {
		for i, cell := range row {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(printable(cell)))
		}
	}
	return p.lines(append([][]string{columns}, rows...))
}

// lines prints rows in the columns that table has made. A later row with a longer cell sticks out, and the next one is in
// its place again.
func (p *printer) lines(rows [][]string) error {
	w := bufio.NewWriter(p.out)
	for _, row := range rows {
		for i, cell := range row {
			cell = printable(cell)
			if i < len(row)-1 {
				cell += strings.Repeat(" ", max(0, p.widths[i]-utf8.RuneCountInString(cell))) + "  "
			}
			w.WriteString(cell)
		}
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return failf(err, "the answer cannot be written to standard output")
	}
	return nil
}

// longestCause is how many characters of a cause a table shows. All of it is in the JSON form.
const longestCause = 100

func short(cause string) string {
	if runes := []rune(cause); len(runes) > longestCause {
		return string(runes[:longestCause-1]) + "…"
	}
	return cause
}

// printable quotes a cell that would break the lines of a table or act on a terminal.
func printable(cell string) string {
	if strings.ContainsFunc(cell, unicode.IsControl) {
		return strconv.Quote(cell)
	}
	return cell
}
