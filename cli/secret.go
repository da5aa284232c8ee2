package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/millrace-io/millrace/query/httpapi"
)

// secret is text that no print shows, whatever the verb.
type secret string

// hidden stands for a secret that is set.
const hidden = "(hidden)"

func (s secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s secret) GoString() string { return s.String() }

// LogValue is String, for log/slog.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// longestSecret is in bytes. A file with more is another file than was meant.
const longestSecret = 64 << 10

// given is the secret of a flag that the environment gives, or the file of its companion. Two that may differ are a mistake:
// nobody could say which one was refused.
func (s secret) given(flag, path string) (secret, error) {
	switch {
	case path == "":
		return s, nil
	case s != "":
		return "", usagef("--%s-file and %s are both given; leave one of them out", flag, variable(flag))
	}
	return secretOf(flag+"-file", path)
}

// secretOf reads the file that a flag names: one line, whose end is no part of it. What the file holds is in no error.
func secretOf(flag, path string) (secret, error) {
	text, err := readPrivate(flag, path, "a file that holds the secret alone", longestSecret)
	if err != nil {
		return "", err
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if line == "" || strings.ContainsAny(line, "\r\n\x00") {
		return "", usagef("--%s %s is empty or holds more than one line; give a file that holds the secret alone", flag, path)
	}
	return secret(line), nil
}

// readFile reads a file that a flag names. allowed says what may be there.
func readFile(flag, path, allowed string, limit int64) ([]byte, error) {
	return read(flag, path, allowed, limit, func(fs.FileInfo) error { return nil })
}

// readPrivate reads a file with a secret, which others may not read. A pipe or a device is whoever's has opened it.
func readPrivate(flag, path, allowed string, limit int64) ([]byte, error) {
	return read(flag, path, allowed, limit, func(info fs.FileInfo) error {
		if !info.Mode().IsRegular() {
			return nil
		}
		return httpapi.Private(info)
	})
}

func read(flag, path, allowed string, limit int64, may func(fs.FileInfo) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(flag, path, allowed, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = may(info)
	}
	if err != nil {
		return nil, unreadable(flag, path, allowed, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, unreadable(flag, path, allowed, err)
	}
	return b, nil
}

func unreadable(flag, path, allowed string, err error) error {
	cause := err
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		cause = p.Err // the path is in the sentence already
	}
	return &UsageError{Detail: fmt.Sprintf("--%s %s cannot be read (%v); give %s", flag, path, cause, allowed), Cause: err}
}
