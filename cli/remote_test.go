package cli

import (
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
	"strings"
	"testing"
	"time"
)

// certified writes a certificate that signs itself, and its key.
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
	err = errors.Join(err1, err2, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// Nobody opens a node to other machines without saying who may ask; every mistake is one sentence about flags.
func TestRemoteNeedsAGuard(t *testing.T) {
	cert, key := certified(t)
	token, short := " --remote-token-file "+secretFile(t, strings.Repeat("s", 16)), secretFile(t, "short\n")
	for args, says := range map[string]string{
		"--remote 127.0.0.1:0":                                 "",
		"--remote localhost:0":                                 "",
		"--remote 192.0.2.1:7000" + token:                      "",
		"--remote 0.0.0.0:7000" + token:                        "every address of this machine",
		"--remote 0.0.0.0:7000":                                "nothing says who may ask",
		"--remote :7000":                                       "--remote-token-file",
		"--remote 192.0.2.1:7000 --remote-token-file " + short: "16 or more",
		"--remote 192.0.2.1:7000 --remote-token shown":         "--remote-token is refused on the command line",
		"--remote nowhere":                                     "give host:port",
		token:                                                  "say nothing without --remote",
		"--remote 127.0.0.1:0 --remote-cert " + cert:           "go together",
		"--remote 127.0.0.1:0 --remote-ca " + cert:             "go together",
		"--remote 127.0.0.1:0 --remote-cert x --remote-key y":  "--remote-cert x cannot be read",
		"--remote 192.0.2.1:7 --remote-cert " + cert + " --remote-key " + key:                                                   "nothing says who may ask",
		"--remote 192.0.2.1:7 --remote-cert " + cert + " --remote-key " + key + " --remote-ca " + cert:                          "",
		"--remote 192.0.2.1:7 --remote-cert " + cert + " --remote-key " + key + " --remote-ca " + key:                           "holds no certificate",
		"--remote 0.0.0.0:7 --remote-advertised here:7 --remote-cert " + cert + " --remote-key " + key + " --remote-ca " + cert: "",
	} {
		w := newWorld()
		w.unready = errors.New("enough was seen") // the settings are checked before any broker is reached
		got := runFake(t, w, running, nil, append([]string{"run", "--brokers", "127.0.0.1:1"}, strings.Fields(args)...)...)
		code, errs := got.code, got.err
		switch {
		case says == "" && (code != exitFailure || !strings.Contains(errs, "enough was seen")):
			t.Errorf("%s: %d %s", args, code, errs)
		case says != "" && (code != exitUsage || !strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "With")):
			t.Errorf("%s: %d %s, want %q", args, code, errs, says)
		}
	}
}
