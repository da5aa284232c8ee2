package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/cli"
)

// certified writes a certificate for 127.0.0.1 that signs itself, and its key.
func certified(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	pkcs, err2 := x509.MarshalPKCS8PrivateKey(private)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(err1, err2, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// The program with --listen-tokens answers each verb by the rights of its token, over TLS, and nothing that it prints or answers
// holds a secret.
func TestProgramKnowsItsCallers(t *testing.T) {
	const reader, operator = "reader-secret-of-the-test", "operator-secret-of-the-test"
	cert, key := certified(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("shop "+reader+" read:counts\nops "+operator+" operate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		code := cli.Run(t.Context(), demo(), cli.Process{Args: append(c.args, "--addr", base, "--ca", cert, "--token", c.token),
			Environ: patient, In: strings.NewReader(""), Out: &told, Err: &told})
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
