package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
)

// longestPEM is in bytes. A bundle of every authority there is has a quarter of a megabyte.
const longestPEM = 16 << 20

// Forms of the files that flags name.
const (
	certificateForm = "a PEM file with certificates (BEGIN CERTIFICATE)"
	keyForm         = "a PEM file with an unencrypted private key (BEGIN PRIVATE KEY)"
)

// certificates reads the authorities of the file that a flag names.
func certificates(flag, path string) (*x509.CertPool, error) {
	b, err := readFile(flag, path, certificateForm, longestPEM)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, usagef("--%s %s holds no certificate in PEM form; give %s", flag, path, certificateForm)
	}
	return pool, nil
}

// tlsFlags are the three flags that name authorities, a certificate and its key, for one kind of connection.
type tlsFlags struct{ ca, cert, key string }

// config has the authorities, and the certificate as it is at each handshake; nil and none for what is not named. The authorities
// are those of the start.
func (f tlsFlags) config(ca, cert, key string, log *slog.Logger) (c *tls.Config, trusted *x509.CertPool, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		if trusted, err = certificates(f.ca, ca); err != nil {
			return nil, nil, err
		}
	}
	if cert+key != "" {
		pair, err := f.renewedPair(cert, key, log)
		if err != nil {
			return nil, nil, err
		}
		present(c, pair)
	}
	return c, trusted, nil
}

// server is for a listener: nil if nothing is named. One of the authorities has to have signed the certificates of callers, if
// there are any.
func (f tlsFlags) server(ca, cert, key string, log *slog.Logger) (*tls.Config, error) {
	switch {
	case ca+cert+key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, usagef("--%s and --%s go together, and --%s needs both; give the files of this node's certificate and key", f.cert, f.key, f.ca)
	}
	c, trusted, err := f.config(ca, cert, key, log)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = trusted
	return c, nil
}

// client is for connections to others. Without authorities it trusts those of this machine.
func (f tlsFlags) client(ca, cert, key string, log *slog.Logger) (*tls.Config, error) {
	c, trusted, err := f.config(ca, cert, key, log)
	if err != nil {
		return nil, err
	}
	c.RootCAs = trusted
	return c, nil
}

// pair gives the certificate with its key. Both files are looked at by themselves first, so that the error is about the
// right one.
func (f tlsFlags) pair(certPath, keyPath string) (pair tls.Certificate, err error) {
	if certPath == "" || keyPath == "" {
		return pair, usagef("--%s and --%s go together; give the files of a certificate and of its key", f.cert, f.key)
	}
	cert, err := readFile(f.cert, certPath, certificateForm, longestPEM)
	if err != nil {
		return pair, err
	}
	key, err := readPrivate(f.key, keyPath, keyForm, longestPEM)
	if err != nil {
		return pair, err
	}
	if !holds(cert, "CERTIFICATE") {
		return pair, usagef("--%s %s holds no certificate in PEM form; give %s", f.cert, certPath, certificateForm)
	}
	if !holds(key, "PRIVATE KEY") {
		return pair, usagef("--%s %s holds no private key in PEM form that can be used; give %s", f.key, keyPath, keyForm)
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		return pair, &UsageError{Detail: fmt.Sprintf("--%s %s and --%s %s cannot be used together (%v); give a certificate and the key that it was made for",
			f.cert, certPath, f.key, keyPath, err), Cause: err}
	}
	return pair, nil
}

// holds looks for a block whose type ends so: "RSA PRIVATE KEY" is a private key too. An encrypted one is none, because
// nothing here could open it.
func holds(b []byte, kind string) bool {
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		encrypted := strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != ""
		if strings.HasSuffix(block.Type, kind) && !encrypted {
			return true
		}
	}
	return false
}
