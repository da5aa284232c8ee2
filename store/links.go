package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrLink is why a state directory is refused that is a link, or that holds one.
var ErrLink = errors.New("it is a symbolic link, and links are not followed")

// refuseLinks fails with a *DirectoryError for ErrLink if an application's directory, a task's or one of its databases is a
// link, or one of the files beside them: what a node writes and deletes there would be somewhere else, in a place that whoever
// made the link has chosen. What lies above the application's directory may be reached by links, as --state-dir says where it
// is. It looks before the directory is locked; later its mode keeps others from making links.
func refuseLinks(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch depth := strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)); {
		case err != nil:
			return &DirectoryError{path, err}
		case e.Type()&os.ModeSymlink != 0:
			return &DirectoryError{path, ErrLink}
		case e.IsDir() && depth > 1:
			return fs.SkipDir // a database, whose files only the engine makes
		}
		return nil
	})
}
