package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/google/uuid"
)

// legalName is what Kafka takes in a topic name, short enough to leave room for what is put behind an application id.
var legalName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

// checkNames finds names and addresses that nothing further in would accept.
func (c *command) checkNames() error {
	if c.App != "" && (!legalName.MatchString(c.App) || c.App == "." || c.App == "..") {
		return usagef("--app %q is no name that Kafka takes for a topic; use 1 to 100 of the characters a-z A-Z 0-9 . _ -", c.App)
	}
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || !legalPort(port) || port == "0" {
			return usagef("--brokers %q is no address; give host:port, such as 127.0.0.1:9092", b)
		}
	}
	for name, address := range map[string]string{"listen": c.Listen, "remote": c.Remote, "remote-advertised": c.RemoteAdvertised} {
		if _, port, err := net.SplitHostPort(address); address != "" && (err != nil || !legalPort(port)) {
			return usagef("--%s %q is no address; give host:port, such as 127.0.0.1:8080", name, address)
		}
	}
	if err := checkStateDir(c.StateDir); err != nil {
		return err
	}
	if err := c.kafkaSettings.check(c.Brokers); err != nil {
		return err
	}
	if _, err := c.guard(nil); err != nil {
		return err
	}
	_, err := c.remoteSettings.options(nil)
	return err
}

// checkStateDir fails if something that is no directory is where the directory, or one above it, is to be. Whether it can be
// made is not tried: the settings may be another machine's.
func checkStateDir(dir string) error {
	for at := dir; at != ""; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return usagef("--state-dir %s cannot be a directory, because %s is none; give another path", dir, at)
		case err == nil || at == filepath.Dir(at):
			return nil
		}
	}
	return nil
}

// legalPort says that text is the number of a port; 0 is one that is free.
func legalPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// appID is the application's id: the one asked for, a fresh one for a single count, or the application's own.
func (c *command) appID() string {
	switch {
	case c.App != "":
		return c.App
	case c.once:
		return fmt.Sprintf("%s-%.8s", c.app.Name, uuid.NewString())
	}
	return c.app.Name
}

// stateDir is where the stores go. A broker in memory and an application that is used once have nothing to come back to,
// so they get a temporary directory, a passing one.
func (c *command) stateDir(appID string) (dir string, passing bool, err error) {
	switch {
	case c.StateDir != "":
		return c.StateDir, false, nil
	case len(c.Brokers) == 0 || c.once && c.App == "":
		dir, err = os.MkdirTemp("", "millrace-"+appID+"-")
		if err != nil {
			return "", false, failf(err, "no temporary directory can be made for the stores; name one with --state-dir")
		}
		return dir, true, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "millrace"), false, nil // the node makes a directory for the application in it
}
