package cli

import (
	"fmt"
	"strings"
)

// UsageError is a mistake in the command line or the settings. It ends Run with exit code 2.
type UsageError struct {
	// Detail is one sentence that names the thing and the fix.
	Detail string
	// Cause is what found the mistake; nil if this package did.
	Cause error
}

func (e *UsageError) Error() string { return e.Detail }
func (e *UsageError) Unwrap() error { return e.Cause }

func usagef(format string, args ...any) error {
	return &UsageError{Detail: fmt.Sprintf(format, args...)}
}

// FailureError is why a verb could not do what it was asked for. It ends Run with exit code 1.
type FailureError struct {
	// Detail is one sentence that names the thing and the fix.
	Detail string
	// Cause is the error behind it; nil if there is none.
	Cause error
}

func (e *FailureError) Error() string {
	if e.Cause == nil {
		return e.Detail
	}
	return e.Detail + ": " + e.Cause.Error()
}

func (e *FailureError) Unwrap() error { return e.Cause }

func failf(cause error, format string, args ...any) error {
	return &FailureError{Detail: fmt.Sprintf(format, args...), Cause: cause}
}

// sentence puts an error on one line. Joined errors become one line each in Go; here they are parts of one sentence, which
// need not say each by itself that they are ours.
func sentence(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(line), "millrace: ")
	}
	return strings.Join(lines, "; ")
}
