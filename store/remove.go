package store

import "errors"

// Remove closes the directory and deletes it with everything in it. What is in it goes while the lock is held, so that no
// other process opens a half of it. Its error is a *DirectoryError; what was deleted by then stays so.
func (d *Directory) Remove() error {
	names, err := d.opts.FS.List(d.dir)
	for _, name := range names {
		if name != lockName {
			err = errors.Join(err, d.opts.FS.RemoveAll(d.path(name)))
		}
	}
	if err = errors.Join(err, d.Close()); err == nil {
		err = d.opts.FS.RemoveAll(d.dir)
	}
	if err != nil {
		return &DirectoryError{d.dir, err}
	}
	return nil
}
