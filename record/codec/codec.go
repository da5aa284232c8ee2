package codec

import "fmt"

// Codec is how one type is written. The package documentation is its contract.
type Codec[T any] interface {
	// Name is written to disk with the store: two codecs with one name must read each other's bytes.
	Name() string
	Encode(dst []byte, v T) ([]byte, error)
	Decode(b []byte) (T, error)
	// ParseText and FormatText are the text form, for URLs and the command line.
	ParseText(s string) (T, error)
	FormatText(v T) string
	Ordered() bool
}

// Error says that bytes or text are not what a codec writes.
type Error struct {
	// Codec is the name of the codec that refused.
	Codec string
	// Reason is one phrase for a person.
	Reason string
	// Cause is the library's error, or nil.
	Cause error
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("codec %s: %s", e.Codec, e.Reason)
	}
	return fmt.Sprintf("codec %s: %s: %v", e.Codec, e.Reason, e.Cause)
}

// Unwrap gives the library's error.
func (e *Error) Unwrap() error { return e.Cause }

// Copies says whether decoded values of c never share memory with the bytes they came from.
func Copies(c any) bool {
	k, ok := c.(interface{ Copies() bool })
	return ok && k.Copies()
}

func wrongLength(codec string, want, got int) error {
	return &Error{Codec: codec, Reason: fmt.Sprintf("want %d bytes, got %d", want, got)}
}

func notText(codec, s string, cause error) error {
	return &Error{Codec: codec, Reason: fmt.Sprintf("cannot read %q", s), Cause: cause}
}
