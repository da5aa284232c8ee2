package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Piece is one line of a source, or one part of a line that is longer than the limit.
type Piece struct {
	// Text is valid until the next call of Next.
	Text []byte
	// Line counts from 1. Part counts from 1 within the line; a line within the limit has part 1 only.
	Line, Part int
}

// WordTooLongError says that a line cannot be split, because one word alone is longer than the limit.
type WordTooLongError struct {
	// Line counts from 1.
	Line int
	// Limit is in bytes.
	Limit int
}

func (e *WordTooLongError) Error() string {
	return fmt.Sprintf("line %d has a word of more than %d bytes, which does not fit into one record", e.Line, e.Limit)
}

// Lines reads a source piece by piece. It belongs to one goroutine; Reset makes it ready for another source and keeps
// its buffer.
type Lines struct {
	src   io.Reader
	limit int
	// buf[start:end] is read and not handed out yet; buf[start:seen] is known to hold no newline.
	buf              []byte
	start, seen, end int
	line, part       int
	// err is what the source said last; it comes out after everything that was read before it.
	err error
}

// NewLines cuts what src holds into pieces of at most limit bytes; limit must be at least 1.
func NewLines(src io.Reader, limit int) *Lines {
	l := &Lines{limit: max(limit, 1)}
	l.buf = make([]byte, 64<<10)
	l.Reset(src)
	return l
}

// Reset starts with another source, at line 1.
func (l *Lines) Reset(src io.Reader) {
	l.src, l.err = src, nil
	l.start, l.seen, l.end = 0, 0, 0
	l.line, l.part = 1, 1
}

// Next returns the next piece. At the end of the source the error is io.EOF. A *WordTooLongError means that the line
// cannot be split; every other error is the source's own. After an error, Next returns it again.
func (l *Lines) Next() (Piece, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.seen:l.end], '\n'); i >= 0 && l.seen+i-l.start <= l.limit {
			return l.whole(l.seen + i), nil
		}
		l.seen = l.end
		if l.end-l.start > l.limit {
			return l.split()
		}
		if l.err != nil {
			return l.last()
		}
		l.fill()
	}
}

// whole hands out the line, or the rest of it, that ends with the newline at nl.
func (l *Lines) whole(nl int) Piece {
	p := Piece{Text: bytes.TrimSuffix(l.buf[l.start:nl], []byte{'\r'}), Line: l.line, Part: l.part}
	l.start, l.seen = nl+1, nl+1
	l.line, l.part = l.line+1, 1
	return p
}

// split hands out the longest part of the line that may be cut off.
func (l *Lines) split() (Piece, error) {
	n := cut(l.buf[l.start:l.end], l.limit)
	if n == 0 {
		l.err, l.end = &WordTooLongError{Line: l.line, Limit: l.limit}, l.start
		return Piece{}, l.err
	}
	p := Piece{Text: l.buf[l.start : l.start+n], Line: l.line, Part: l.part}
	l.start += n
	l.seen = l.start
	l.part++
	return p, nil
}

// last hands out what is left without a newline at the end of the source.
func (l *Lines) last() (Piece, error) {
	if l.start == l.end || !errors.Is(l.err, io.EOF) {
		l.start, l.seen = l.end, l.end
		return Piece{}, l.err
	}
	p := Piece{Text: l.buf[l.start:l.end], Line: l.line, Part: l.part}
	l.start, l.seen = l.end, l.end
	return p, nil
}

// fill reads more of the source behind what is there, making room for a whole piece first.
func (l *Lines) fill() {
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.start, l.seen, l.end = 0, l.seen-l.start, l.end-l.start
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.src.Read(l.buf[l.end:])
	l.end += n
	l.err = err
}

// cut is how many bytes of b, which has more than limit, may be cut off: at most limit, behind a separator that is
// ASCII if there is one, else between any two bytes that are not both letters; 0 if there is no such place.
func cut(b []byte, limit int) int {
	for n := limit; n > 0; n-- {
		if b[n-1] < 0x80 && lower[b[n-1]] == 0 {
			return n
		}
	}
	for n := limit; n > 0; n-- {
		if lower[b[n-1]] == 0 || lower[b[n]] == 0 {
			return n
		}
	}
	return 0
}
