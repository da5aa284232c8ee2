package httpapi

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Bounds of a token file.
const (
	// MinTokenLength and MaxTokenLength bound a token, in printable ASCII characters without spaces.
	MinTokenLength = 16
	MaxTokenLength = 512
	// MaxTokens is how many tokens a file may hold; each is looked at for each request.
	MaxTokens = 1_000
)

// Tokens are the callers that a node knows, as a token file has them: one a line, with a name, a secret and rights.
//
//	# name    secret, or the SHA-256 of one                rights
//	grafana   sha256:9f86d081884c7d659a2feaa0c55ad015…      metrics
//	shop      3d1f0a6c-a-long-random-text                   read:orders,read:totals
//	oncall    another-long-random-text                      read,operate,metrics
//	probes    -                                             health
//
// Empty lines and lines that begin with # are passed over. The secret - stands for callers without a token, who may have the
// rights health and metrics only. Secrets are not kept, but their SHA-256, and nothing here prints either.
type Tokens struct {
	list      []token
	anonymous *Caller
}

type token struct {
	sum    [sha256.Size]byte
	caller *Caller
}

// String tells how many there are.
func (t *Tokens) String() string { return fmt.Sprintf("%d tokens", len(t.list)) }

// GoString implements fmt.GoStringer.
func (t *Tokens) GoString() string { return t.String() }

// TokenError is why a token file cannot be used. It never holds a secret.
type TokenError struct {
	// Path is the file's, and Line begins with 1; empty and 0 if it is not about one.
	Path string
	Line int
	// Detail is what is wrong, and what to do.
	Detail string
	// Cause is the error behind it, if there is one.
	Cause error
}

func (e *TokenError) Error() string {
	at := "the token file"
	if e.Path != "" {
		at += " " + e.Path
	}
	if e.Line > 0 {
		at += fmt.Sprintf(", line %d", e.Line)
	}
	return at + ": " + e.Detail
}

// Unwrap gives the cause.
func (e *TokenError) Unwrap() error { return e.Cause }

// ReadTokens reads a token file. Its error is a *TokenError: the file cannot be read, others may read it (Private says whom that
// is), or a line is wrong.
func ReadTokens(path string) (*Tokens, error) {
	f, err := os.Open(path)
	if err != nil {
		why := err
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			why = p.Err
		}
		return nil, &TokenError{Path: path, Detail: fmt.Sprintf("it cannot be read: %v", why), Cause: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = Private(info)
	}
	if err != nil {
		return nil, &TokenError{Path: path, Detail: err.Error(), Cause: err}
	}
	t, err := ParseTokens(f)
	if e := (*TokenError)(nil); errors.As(err, &e) {
		e.Path = path
	}
	return t, err
}

// ErrReadable is for a file with secrets that others may read.
var ErrReadable = errors.New("others may read it")

// Private fails with ErrReadable if others than the process's own user may read or write a file with secrets: its mode is
// wider than 0600. A file of root's may have 0640 for a process that is not root's, which is how Kubernetes mounts secrets.
func Private(info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if mode&^0o600 == 0 || mode&^0o640 == 0 && ofRoot(info) {
		return nil
	}
	return fmt.Errorf("%w: its mode is %04o; chmod 600 makes it private", ErrReadable, mode)
}

// ParseTokens reads the lines of a token file. Its error is a *TokenError for the first line that is wrong.
func ParseTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if detail := t.add(strings.Fields(line)); detail != "" {
			return nil, &TokenError{Line: n, Detail: detail}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, &TokenError{Detail: fmt.Sprintf("it cannot be read: %v", err), Cause: err}
	}
	if len(t.list) == 0 {
		return nil, &TokenError{Detail: "it holds no token: write lines of a name, a secret and rights"}
	}
	return t, nil
}

// add takes one line, or says what is wrong with it.
func (t *Tokens) add(fields []string) string {
	if len(fields) != 3 {
		return fmt.Sprintf("it has %d parts: write a name, a secret and rights, such as: shop <secret> read:orders,metrics", len(fields))
	}
	rights, detail := parseRights(fields[2])
	if detail != "" {
		return detail
	}
	name := fields[0]
	if !legalCaller(name) {
		return "the name is none: use 1 to 64 of the characters a-z A-Z 0-9 . _ -"
	}
	if t.knows(name) {
		return "there is a token of the name " + name + " already: give each its own"
	}
	caller := &Caller{name: name, rights: rights}
	if fields[1] == "-" {
		return t.addAnonymous(caller)
	}
	sum, detail := parseSecret(fields[1])
	switch {
	case detail != "":
		return detail
	case slices.ContainsFunc(t.list, func(k token) bool { return k.sum == sum }):
		return "another name has the same secret: give each its own"
	case len(t.list) == MaxTokens:
		return fmt.Sprintf("there are more than %d tokens", MaxTokens)
	}
	t.list = append(t.list, token{sum, caller})
	return ""
}

func (t *Tokens) knows(name string) bool {
	return t.anonymous != nil && t.anonymous.name == name || slices.ContainsFunc(t.list, func(k token) bool { return k.caller.name == name })
}

func (t *Tokens) addAnonymous(c *Caller) string {
	if t.anonymous != nil {
		return "a second line is about callers without a token: give their rights in one"
	}
	if slices.ContainsFunc(c.rights, func(r Right) bool { return r != MayProbe && r != MayScrape }) {
		return "callers without a token may have the rights health and metrics only"
	}
	c.anonymous, t.anonymous = true, c
	return ""
}

// hashed begins a secret of which the file holds only the SHA-256.
const hashed = "sha256:"

// parseSecret gives the sum of a secret. What it says is wrong does not hold it.
func parseSecret(text string) (sum [sha256.Size]byte, detail string) {
	if digits, ok := strings.CutPrefix(text, hashed); ok {
		decoded, err := hex.DecodeString(digits)
		if err != nil || len(decoded) != len(sum) {
			return sum, "what follows sha256: is not the 64 hexadecimal digits of a SHA-256"
		}
		return [sha256.Size]byte(decoded), ""
	}
	if len(text) < MinTokenLength || len(text) > MaxTokenLength || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sum, fmt.Sprintf("the secret can be guessed or sent wrongly: use %d to %d printable ASCII characters without spaces", MinTokenLength, MaxTokenLength)
	}
	return sha256.Sum256([]byte(text)), ""
}

func parseRights(text string) (all []Right, detail string) {
	for word := range strings.SplitSeq(text, ",") {
		r := Right(word)
		store, one := r.store()
		if !(one && store != "") && r != MayRead && r != MayOperate && r != MayScrape && r != MayProbe {
			return nil, "the third part is no list of rights: use read, read:STORE, operate, metrics and health, with commas and no spaces between them"
		}
		all = append(all, r)
	}
	return all, ""
}

func legalCaller(name string) bool {
	return len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

// caller is who sends these Authorization headers; nil for nobody that is known. It compares sums, all of them and each in
// constant time, so how long it takes says nothing about a secret.
func (t *Tokens) caller(headers []string) *Caller {
	if len(headers) == 0 {
		return t.anonymous
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range t.list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.list[i].sum[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return t.list[found].caller
}

// Authenticate lets callers through to next that t knows, and answers the others 401. Handler then gives each what it has the
// right to, and answers 403 to the rest; a program's own handlers say what they need with Require. Serve it with TLS: tokens
// travel as they are.
func Authenticate(t *Tokens, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := r.Header.Values("Authorization")
		c := t.caller(headers)
		if c == nil {
			unauthenticated(w, len(headers) > 0)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}
