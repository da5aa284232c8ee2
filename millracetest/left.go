package millracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/store"
)

// CheckClosed ends the members and the brokers, and fails the test if anything is left of them: a goroutine that was not
// there when the cluster was made, a file of a state directory that is open, a state directory that is locked, or what a
// restore or a removal leaves half done. The cluster cannot be used after that. Other tests must not run at the same time:
// their goroutines would be taken for the cluster's.
func CheckClosed(c *Cluster) {
	c.tb.Helper()
	for _, m := range c.live() {
		m.Faults.Clear()
		m.Stop()
	}
	c.close()
	if found := c.left(); len(found) > 0 {
		c.tb.Fatalf("millracetest: %s", Report(c, found))
	}
}

// left is what is left behind the members that have ended.
func (c *Cluster) left() (found []Violation) {
	// The client library's metrics have one goroutine for ever.
	metrics := goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")
	// An engine that was not opened because of its disk leaves one of its own, which nobody can end.
	engine := goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter")
	if err := goleak.Find(c.before, metrics, engine); err != nil {
		found = append(found, Violation{Left, "goroutines", "none", err.Error()})
	}
	for _, path := range openFiles(c.dir) {
		found = append(found, Violation{Left, path, "it is closed", "it is open"})
	}
	seen := map[string]bool{}
	for _, m := range c.members {
		if seen[m.StateDir] {
			continue
		}
		seen[m.StateDir] = true
		dir, err := store.OpenDirectory(m.StateDir, c.app, store.DirectoryOptions{})
		if err == nil {
			err = dir.Close()
		}
		if err != nil {
			found = append(found, Violation{Left, m.Name, "its state directory can be opened", err.Error()})
		}
	}
	err := filepath.WalkDir(c.dir, func(path string, _ os.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, "trash-") || strings.HasPrefix(name, "ingest") || strings.HasSuffix(name, ".new") {
			found = append(found, Violation{Left, path, "it is removed", "it is there"})
		}
		return err
	})
	if err != nil {
		found = append(found, Violation{Unknown, c.dir, "it can be read", err.Error()})
	}
	return found
}

// openFiles are the files under a directory that this process has open, where the system tells.
func openFiles(dir string) (paths []string) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, fd := range list {
		if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", fd.Name())); err == nil && strings.HasPrefix(path, dir+"/") {
			paths = append(paths, path)
		}
	}
	return paths
}
