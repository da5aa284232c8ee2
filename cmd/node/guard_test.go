package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/cli"
)

// certified writes the certificate for 127.0.0.1 that net/http/httptest has, and its key.
func certified(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	pkcs, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return private(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})), private(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}))
}

// private writes a file that nobody else may read.
func private(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "private")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The program with --listen-tokens answers each verb by the rights of its token, over TLS, and nothing that it prints or answers
// holds a secret.
func TestProgramKnowsItsCallers(t *testing.T) {
	const reader, operator = "reader-secret-of-the-test", "operator-secret-of-the-test"
	cert, key := certified(t)
	tokens := private(t, []byte("shop "+reader+" read:counts\nops "+operator+" operate\n"))
	p := begin(t, "demo", "dev", "--log-level", "debug", "--listen-cert", cert, "--listen-key", key, "--listen-tokens", tokens)
	p.await(p.out, "Ctrl-C ends it.")
	said, _ := p.out.read()
	base := regexp.MustCompile(`https://[0-9.:]+`).FindString(said)
	var all strings.Builder
	for _, c := range []struct {
		code  int
		says  string
		token string
		args  []string
	}{
		{0, demo().Demo.Key, reader, []string{"get", "counts", demo().Demo.Key}},
		{0, "counts", reader, []string{"stores", "-o", "json"}},
		{13, "has not the right read:others", reader, []string{"get", "others", "x"}},
		{13, "has not the right health", reader, []string{"tree"}},
		{13, "has not the right operate", reader, []string{"task", "skip", "0_0", "lines-0@0"}},
		{13, "has not the right read", operator, []string{"get", "counts", "x"}},
		{0, "RUNNING", operator, []string{"tree", "-o", "json"}},
		{13, "wants a bearer token", "", []string{"stores"}},
		{13, "wants a bearer token", reader + "x", []string{"stores"}},
	} {
		var told bytes.Buffer
		code := cli.Run(t.Context(), demo(), cli.Process{Args: append(c.args, "--addr", base, "--ca", cert),
			Environ: func() []string { return append(patient(), "MILLRACE_TOKEN="+c.token) }, In: strings.NewReader(""), Out: &told, Err: &told})
		if code != c.code || !strings.Contains(told.String(), c.says) {
			t.Errorf("%v with %q: %d %s", c.args, c.token, code, &told)
		}
		all.WriteString(told.String())
	}
	p.end()
	out, _ := p.out.read()
	errs, _ := p.err.read()
	all.WriteString(out + errs)
	for _, secret := range []string{reader, operator} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%s is told", secret)
		}
	}
}
