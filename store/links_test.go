package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link in the place of anything that the node would write or delete is refused by its name, and what it leads to stays as
// it was. One above the application's directory is how the path was given.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, at := range []string{"", "lock", "process", "process.new", "0_1", "0_1/0", "global-names"} {
		root, victim := t.TempDir(), t.TempDir()
		kept := filepath.Join(victim, "kept")
		if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		target := victim
		if strings.HasPrefix(at, "process") || at == "lock" {
			target = kept
		}
		link := filepath.Join(root, "app", at)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		_, err := OpenDirectory(root, "app", DirectoryOptions{})
		refused := (*DirectoryError)(nil)
		if !errors.As(err, &refused) || !errors.Is(err, ErrLink) || refused.Dir != link || strings.Contains(err.Error(), "space") || !strings.Contains(err.Error(), "leads to") {
			t.Errorf("%q: %v", at, err)
		}
		entries, err := os.ReadDir(victim)
		if text, err2 := os.ReadFile(kept); errors.Join(err, err2) != nil || string(text) != "kept" || len(entries) != 1 {
			t.Errorf("%q was followed: %q %v", at, text, entries)
		}
	}
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "real"), 0o700), os.Symlink("real", filepath.Join(root, "link"))); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDirectory(filepath.Join(root, "link"), "app", DirectoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	openTask(t, d, testSpec())
	closeDir(t, d)
	if d, err = OpenDirectory(filepath.Join(root, "link"), "app", DirectoryOptions{}); err != nil {
		t.Fatal("what the node made itself is refused:", err)
	}
	closeDir(t, d)
}
