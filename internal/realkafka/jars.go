package realkafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed pom.xml
var recipe []byte

// Version is the Kafka release that pom.xml names.
const Version = "4.3.1"

// ErrUnavailable is in the chain of every error that says that Java or Maven is missing.
var ErrUnavailable = errors.New("real Kafka is not available here")

// Available returns nil, or an error that wraps ErrUnavailable and says in one sentence which program is missing.
func Available() error {
	for _, need := range []struct{ program, what string }{
		{"java", "Java 17 or newer"},
		{"mvn", "Maven"},
	} {
		if _, err := exec.LookPath(need.program); err != nil {
			return fmt.Errorf("%w: the program %s is not on the PATH; install %s", ErrUnavailable, need.program, need.what)
		}
	}
	return nil
}

// Jars returns the directory that holds Kafka's jars, and fills it at the first call on a machine.
func Jars(ctx context.Context) (string, error) {
	return Resolve(ctx, "kafka-"+Version, recipe)
}

// Resolve returns the directory, under name in the user's cache, that holds the run-time dependencies of a Maven
// recipe. It asks Maven once; a directory is complete or absent, because it is renamed into place. The second of two
// processes that fill it at the same time discards its copy.
func Resolve(ctx context.Context, name string, pom []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for Kafka's jars: %w", err)
	}
	home := filepath.Join(cache, "millrace", "jars")
	done := filepath.Join(home, name)
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("no cache directory for Kafka's jars: %w", err)
	}
	return done, download(ctx, home, done, pom)
}

func download(ctx context.Context, home, done string, pom []byte) error {
	work, err := os.MkdirTemp(home, "filling-")
	if err != nil {
		return fmt.Errorf("no room for Kafka's jars: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("no room for Kafka's jars: %w", err)
	}
	libs := filepath.Join(work, "libs")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(work, "pom.xml"),
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+libs)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("maven could not fetch Kafka's jars: %w\n%s", err, tail(out, 2000))
	}
	if err := os.Rename(libs, done); err != nil {
		if _, other := os.Stat(done); other == nil {
			return nil
		}
		return fmt.Errorf("kafka's jars could not be put into %s: %w", done, err)
	}
	return nil
}

// tail is the end of b, at most n bytes of it.
func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
