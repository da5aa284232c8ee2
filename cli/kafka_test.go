package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/kafka/embedded"
)

// The password of every test here. Nothing that is printed may hold a part of it.
const password = "hunter2,=ü"

func keepsSecret(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(text, "hunter") {
			t.Errorf("the password is in %s", text)
		}
	}
}

// secured is a cluster that asks for a certificate and a user, and the settings by which it is reached.
func secured(t *testing.T, mechanism string) (c *embedded.Cluster, settings []string) {
	t.Helper()
	cert, key := certified(t)
	pair, err1 := tls.LoadX509KeyPair(cert, key)
	trusted, err2 := certificates("test", cert)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	c, err := embedded.Start(kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}),
		kfake.EnableSASL(), kfake.Superuser(mechanism, "me", password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, []string{"--brokers", strings.Join(c.Addrs(), ","), "--kafka-ca", cert, "--kafka-cert", cert, "--kafka-key", key,
		"--kafka-user", "me", "--kafka-mechanism", mechanism}
}

// commanded runs a command line with an environment, outside of any fake.
func commanded(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), testApp(), Process{Args: args, Environ: func() []string { return env }, In: strings.NewReader("one\n"), Out: &out, Err: &errs})
	return outcome{code, out.String(), errs.String()}
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Everything that dev does on a cluster, the claim, the feed and the node, goes through TLS with a certificate of its own and
// each mechanism; what it logs at its loudest does not hold the password.
func TestKafkaIsReachedThroughTLSAndSASL(t *testing.T) {
	for mechanism, file := range map[string]bool{"PLAIN": true, "SCRAM-SHA-256": true, "SCRAM-SHA-512": false} {
		if testing.Short() && mechanism == "SCRAM-SHA-256" { // the tests of the client have all three
			continue
		}
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			_, settings := secured(t, mechanism)
			env := []string{"MILLRACE_START_TIMEOUT=1m"}
			if file {
				settings = append(settings, "--kafka-password-file", secretFile(t, password+"\n"))
			} else {
				env = append(env, "MILLRACE_KAFKA_PASSWORD="+password)
			}
			args := append([]string{"dev", "--once", "--app", "secure", "--state-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--log-level", "debug"}, settings...)
			got := commanded(t, env, args...)
			if got.code != exitOK || !strings.Contains(got.err, "Lines fed: 1.") {
				t.Fatalf("%+v", got)
			}
			keepsSecret(t, got.out, got.err)
		})
	}
}

// A user that the brokers refuse is told so at once, by the flags that say who it is.
func TestRefusedKafkaUserIsNamed(t *testing.T) {
	c, settings := secured(t, "SCRAM-SHA-512")
	c.Kfake().ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		res.ErrorCode = 58
		return res, nil, true
	})
	got := commanded(t, []string{"MILLRACE_KAFKA_PASSWORD=" + password}, append([]string{"run", "--start-timeout", "1m"}, settings...)...)
	if got.code != exitFailure || !strings.Contains(got.err, `the brokers refuse --kafka-user "me" by SCRAM-SHA-512; correct`) || strings.Count(got.err, "\n") != 1 {
		t.Fatalf("%+v", got)
	}
	keepsSecret(t, got.out, got.err)
}

// Files of every wrong kind, and settings that do not go together, are one sentence that names the setting.
func TestKafkaSettingsThatCannotBeUsed(t *testing.T) {
	cert, key := certified(t)
	_, other := certified(t)
	text, dir := secretFile(t, "no PEM\n"), t.TempDir()
	sealed := secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})))
	private, err := os.ReadFile(key)
	open := filepath.Join(dir, "open.pem")
	if err != nil || os.WriteFile(open, private, 0o644) != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		"--kafka-ca " + cert + " --kafka-cert " + cert + " --kafka-key " + key: "",
		"--kafka-tls --kafka-server-name kafka.example":                        "",
		"--kafka-ca /absent":                                                                "--kafka-ca /absent cannot be read (no such file or directory); give a PEM file",
		"--kafka-ca " + dir:                                                                 "--kafka-ca " + dir + " cannot be read (is a directory); give a PEM file",
		"--kafka-ca " + text:                                                                "--kafka-ca " + text + " holds no certificate in PEM form; give a PEM file",
		"--kafka-ca " + key:                                                                 "holds no certificate in PEM form",
		"--kafka-cert " + cert:                                                              "--kafka-cert and --kafka-key go together",
		"--kafka-key " + key:                                                                "--kafka-cert and --kafka-key go together",
		"--kafka-cert " + key + " --kafka-key " + key:                                       "--kafka-cert " + key + " holds no certificate",
		"--kafka-cert " + cert + " --kafka-key " + cert:                                     "--kafka-key " + cert + " holds no private key",
		"--kafka-cert " + cert + " --kafka-key " + sealed:                                   "give a PEM file with an unencrypted private key",
		"--kafka-cert " + cert + " --kafka-key " + text:                                     "--kafka-key " + text + " holds no private key",
		"--kafka-cert " + cert + " --kafka-key " + other:                                    "cannot be used together (tls: private key does not match public key)",
		"--kafka-cert " + cert + " --kafka-key /absent":                                     "--kafka-key /absent cannot be read",
		"--kafka-cert " + cert + " --kafka-key " + open:                                     "--kafka-key " + open + " cannot be read (others may read it: its mode is 0644; chmod 600 makes it private)",
		"--kafka-user me --kafka-password-file " + open:                                     "chmod 600 makes it private",
		"--kafka-mechanism GSSAPI":                                                          "--kafka-mechanism must be one of",
		"--kafka-user me":                                                                   `--kafka-user "me" has no password; give it in MILLRACE_KAFKA_PASSWORD`,
		"--kafka-password-file " + text:                                                     "say nothing without --kafka-user",
		"--kafka-user me --kafka-password-file /absent":                                     "--kafka-password-file /absent cannot be read (no such file or directory); give a file that holds the secret alone",
		"--kafka-user me --kafka-password-file /dev/zero":                                   "cannot be read (it has more than 65536 bytes)",
		"--kafka-user me --kafka-password-file /dev/null":                                   "/dev/null is empty",
		"--kafka-user me --kafka-password-file " + cert:                                     "holds more than one line",
		"--kafka-user me --kafka-password-file " + text:                                     "",
		"--kafka-user me --kafka-password " + password:                                      "--kafka-password is refused on the command line",
		"--kafka-user me --kafka-password=" + password:                                      "--kafka-password is refused on the command line",
		"--kafka-user me --kafka-passwort=" + password:                                      "unknown flag --kafka-passwort",
		"--kafka-tls --kafka-mechanism PLAIN --kafka-user me --kafka-password-file " + text: "",
		"--kafka-mechanism PLAIN --kafka-user me --kafka-password-file " + text:             "--kafka-mechanism PLAIN would send the password as it is to other machines",
	} {
		got := commanded(t, nil, append([]string{"check", "--brokers", "kafka.example:9093"}, strings.Fields(args)...)...)
		switch {
		case says == "" && got.code != exitOK:
			t.Errorf("%s: %+v", args, got)
		case says != "" && (got.code != exitUsage || got.out != "" || !strings.Contains(got.err, says) || strings.Count(got.err, "\n") != 1 || strings.Contains(got.err, "With")):
			t.Errorf("%s: %+v, want %q", args, got, says)
		}
		keepsSecret(t, got.out, got.err)
	}
}

// A password is shown by no verb and taken from no file of settings, and one in the environment is not mixed with another.
func TestPasswordComesFromTheEnvironmentOrAFile(t *testing.T) {
	env := []string{"MILLRACE_KAFKA_PASSWORD=" + password}
	for file, says := range map[string]string{
		"brokers: [a:1]\nkafka-user: me\n":                            "",
		"brokers: [a:1]\nkafka-user: me\nkafka-password-file: /x\n":   "--kafka-password-file and MILLRACE_KAFKA_PASSWORD are both given",
		"brokers: [a:1]\n":                                            "say nothing without --kafka-user",
		"brokers: [a:1]\nkafka-user: me\nkafka-password: hunter\n":    "kafka-password is refused in the configuration file",
		"brokers: [a:1]\nkafka-user: me\nkafka_password: hunter\n":    `there is no setting "kafka_password"`,
		"brokers: [a:1]\nkafka-user: me\nkafka-password: [hunter\n]]": "cannot be read",
	} {
		code, out, complaints := checked(t, file, env)
		if says == "" && code != exitOK || !strings.Contains(unattributed(complaints), says) {
			t.Errorf("%s: %d %s, want %q", file, code, complaints, says)
		}
		if says == "" && !strings.Contains(squeezed(out), "kafka-password (hidden) environment") {
			t.Error(out)
		}
		keepsSecret(t, out, complaints)
	}
	code, out, complaints := checked(t, "brokers: [a:1]\nkafka-user: me\nkafka-password: hunter\n", nil)
	if code != exitUsage || !strings.Contains(complaints, "kafka-password is refused in the configuration file") {
		t.Error(code, complaints)
	}
	keepsSecret(t, out, complaints)
}

// The embedded broker of dev knows no users.
func TestKafkaSettingsNeedACluster(t *testing.T) {
	got := commanded(t, []string{"MILLRACE_KAFKA_TLS=true"}, "dev", "--once")
	if got.code != exitUsage || !strings.Contains(got.err, "name a Kafka cluster with --brokers") {
		t.Errorf("%+v", got)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	var logged bytes.Buffer
	s := nodeSettings{settings: settings{kafkaSettings: kafkaSettings{KafkaPassword: password}, remoteSettings: remoteSettings{RemoteToken: password}}}
	slog.New(slog.NewTextHandler(&logged, nil)).LogAttrs(context.Background(), slog.LevelInfo, "as", slog.Any("settings", s), slog.Any("password", s.KafkaPassword))
	keepsSecret(t, logged.String(), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s.KafkaPassword, s.KafkaPassword))
	if !strings.Contains(logged.String(), hidden) {
		t.Error(logged.String())
	}
}

// "run" makes internal topics unless it is told not to; "dev" always does.
func TestCreateTopicsCanBeTurnedOff(t *testing.T) {
	for args, want := range map[string]bool{"run": true, "run --no-create-topics": false, "run --create-topics=false": false, "dev": true} {
		w := newWorld()
		runFake(t, w, "Ctrl-C", []os.Signal{os.Interrupt}, append(strings.Fields(args), "--brokers", "127.0.0.1:1")...)
		if w.settings.createTopics != want {
			t.Errorf("%s: %t", args, w.settings.createTopics)
		}
	}
	code, out, complaints := checked(t, "brokers: [a:1]\ncreate-topics: false\n", nil)
	if code != exitOK || !strings.Contains(squeezed(out), "create-topics false file") {
		t.Error(code, out, complaints)
	}
}
