package httpapi_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/query/httpapi"
)

// Every mistake in a token file is one sentence with its line, and no sentence holds what may be a secret.
func TestTokenFilesAreChecked(t *testing.T) {
	const secret = "this-is-the-secret"
	for lines, want := range map[string]string{
		"":                                "it holds no token",
		"# a b c\n\n":                     "it holds no token",
		"shop " + secret:                  "it has 2 parts",
		secret + " " + secret + " read x": "it has 4 parts",
		"shop short-secret read":          "16 to 512 printable",
		"shop " + secret + "ä read":       "16 to 512 printable",
		"shop " + strings.Repeat("x", 513) + " read":            "16 to 512 printable",
		"shop sha256:" + secret + " read":                       "64 hexadecimal digits",
		"shop sha256:00ff read":                                 "64 hexadecimal digits",
		"a/b " + secret + " read":                               "the name is none",
		"shop " + secret + " write":                             "no list of rights",
		"shop " + secret + " read:":                             "no list of rights",
		"shop " + secret + " read,,metrics":                     "no list of rights",
		"shop read " + secret:                                   "no list of rights",
		"a " + secret + " read\na " + secret + "2 read":         "name a already",
		"a " + secret + " read\nb " + secret + " metrics":       "the same secret",
		"a - health\na " + secret + " read":                     "name a already",
		"a - read:x\n":                                          "health and metrics only",
		"a - health\nb - metrics\n":                             "a second line",
		"a " + secret + " read\n" + strings.Repeat("y", 70_000): "cannot be read",
	} {
		_, err := httpapi.ParseTokens(strings.NewReader(lines))
		e := (*httpapi.TokenError)(nil)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q", lines, err, want)
		}
	}
	sum := sha256.Sum256([]byte(secret))
	tokens, err := httpapi.ParseTokens(strings.NewReader(fmt.Sprintf("# callers\n\n  shop\tsha256:%x   read:counts,metrics  \n", sum)))
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(guarded(tokens, &full{}), httptest.NewRequest("GET", "/stores/counts/all", nil), "Bearer "+secret); w.Code != http.StatusOK {
		t.Error(w.Code, w.Body)
	}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if said := fmt.Sprintf(form, tokens); said != "1 tokens" {
			t.Error(form, said)
		}
	}
}

// A file that others may read is refused; its mode is told, and what to do.
func TestTokenFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("shop this-is-the-secret read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o440: false, 0o604: false, 0o644: false, 0o700: false, 0o660: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := httpapi.ReadTokens(path)
		if want != (err == nil) || !want && (!errors.Is(err, httpapi.ErrReadable) || !strings.Contains(err.Error(), "chmod 600") || !strings.Contains(err.Error(), path)) {
			t.Errorf("%04o: %v", mode, err)
		}
	}
	if _, err := httpapi.ReadTokens(path + "-missing"); !errors.Is(err, os.ErrNotExist) || strings.Count(err.Error(), path) != 1 {
		t.Error(err)
	}
	if err := os.WriteFile(path+"-wrong", []byte("\nshop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := httpapi.ReadTokens(path + "-wrong"); err == nil || !strings.Contains(err.Error(), "tokens-wrong, line 2: it has 1 parts") {
		t.Error(err)
	}
}
