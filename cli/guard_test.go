package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/query/httpapi"
)

const listenSecret = "a-secret-that-nobody-may-see"

// tokenFile is one with a caller of all rights.
func tokenFile(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("ops "+listenSecret+" read,operate,metrics\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Nobody opens --listen to other machines without TLS and tokens; every mistake is one sentence about flags, without a secret.
func TestListenNeedsAGuard(t *testing.T) {
	cert, key := certified(t)
	tokens, pair := tokenFile(t, 0o600), " --listen-cert "+cert+" --listen-key "+key
	wrong, open := filepath.Join(t.TempDir(), "wrong"), filepath.Join(t.TempDir(), "open.pem")
	private, err := os.ReadFile(key)
	if err != nil || os.WriteFile(wrong, []byte("ops "+listenSecret+" fly\n"), 0o600) != nil || os.WriteFile(open, private, 0o644) != nil {
		t.Fatal(err)
	}
	full := pair + " --listen-tokens " + tokens
	for args, says := range map[string]string{
		"--listen 127.0.0.1:0":                                         "",
		"--listen localhost:0 --listen-tokens " + tokens:               "",
		"--listen 127.0.0.1:0" + pair:                                  "",
		"--listen 192.0.2.1:8080" + full:                               "",
		"--listen 192.0.2.1:8080" + full + " --listen-ca " + cert:      "",
		"--listen 0.0.0.0:8080 --listen-advertised node-1:8080" + full: "",
		"--listen :8080 --remote 127.0.0.1:0" + full:                   "",
		"--listen 192.0.2.1:8080":                                      "other machines can reach --listen 192.0.2.1:8080",
		"--listen :8080" + pair:                                        "--listen-tokens",
		"--listen 192.0.2.1:8080 --listen-ca " + cert + pair:           "there is no check of who asks",
		"--listen 192.0.2.1:8080 --listen-tokens " + tokens:            "--listen-cert and --listen-key (TLS)",
		"--listen 0.0.0.0:8080" + full:                                 "name it with --listen-advertised",
		"--listen [::]:8080" + full:                                    "name it with --listen-advertised",
		"--listen-advertised nowhere":                                  `--listen-advertised "nowhere" is no address`,
		"--listen-cert " + cert:                                        "go together",
		"--listen-ca " + cert:                                          "go together",
		"--listen-cert " + cert + " --listen-key absent":               "--listen-key absent cannot be read (no such file or directory); give",
		"--listen-cert " + cert + " --listen-key " + open:              "chmod 600 makes it private",
		"--listen-ca " + key + pair:                                    "--listen-ca " + key + " holds no certificate",
		"--listen-tokens absent":                                       "--listen-tokens: the token file absent: it cannot be read: no such file or directory",
		"--listen-tokens " + wrong:                                     "line 1: the third part is no list of rights",
		"--listen-tokens " + tokenFile(t, 0o644):                       "chmod 600 makes it private",
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), testApp(), Process{Args: append([]string{"check", "--brokers", "a:1"}, strings.Fields(args)...),
			Environ: func() []string { return nil }, Out: &out, Err: &errs})
		if says == "" && code != 0 || says != "" && (code != 2 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), says) || strings.Contains(errs.String(), "---")) {
			t.Errorf("%s: %d %s, want %q", args, code, errs.String(), says)
		}
		if strings.Contains(out.String()+errs.String(), listenSecret) {
			t.Errorf("%s: a secret is told", args)
		}
	}
}

// What is served at --listen is encrypted, and callers are known; with a client CA they have a certificate as well.
func TestListenIsGuarded(t *testing.T) {
	cert, key := certified(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := certificates("test", cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, mutual := range []bool{false, true} {
		s := &settings{listenSettings: listenSettings{ListenCert: cert, ListenKey: key, ListenTokens: tokenFile(t, 0o600)}}
		if mutual {
			s.ListenCA = cert
		}
		g, err := s.guard(nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop := serve(l, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := httpapi.CallerOf(r.Context())
			_, _ = io.WriteString(w, c.Name())
		}))
		for name, c := range map[string]struct {
			scheme, token string
			certificates  []tls.Certificate
			want          string
		}{
			"all":            {"https", listenSecret, []tls.Certificate{pair}, "200 ops"},
			"no certificate": {"https", listenSecret, nil, map[bool]string{false: "200 ops", true: "cut"}[mutual]},
			"no token":       {"https", "", []tls.Certificate{pair}, "401"},
			"wrong token":    {"https", listenSecret + "x", []tls.Certificate{pair}, "401"},
			"no TLS":         {"http", listenSecret, nil, "400"},
		} {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: c.certificates}}}
			got := told(t, client, c.scheme+"://"+l.Addr().String()+"/", c.token)
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("mutual %v, %s: %s, want %s", mutual, name, got, c.want)
			}
		}
		stop(context.Background())
	}
}

// told is the status and the body of an answer, or "cut".
func told(t *testing.T, client *http.Client, url, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "cut: " + err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return strings.TrimSuffix(answer.Status, " "+http.StatusText(answer.StatusCode)) + " " + string(body)
}
