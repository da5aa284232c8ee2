package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// nulSniff is how many bytes of a file are looked at for a NUL, which text does not have.
const nulSniff = 8 << 10

// input is one source of text.
type input struct {
	// path is absolute, so that it means the same file in a later run from another directory.
	path string
	// size is in bytes; -1 if unknown.
	size int64
	// open is nil for a file.
	open func() io.Reader
}

// stdin is standard input as a source.
func stdin(r io.Reader) input {
	return input{path: "standard input", size: -1, open: func() io.Reader { return r }}
}

// builtin is a text of the program as a source.
func builtin(text string) input {
	return input{path: "built-in text", size: int64(len(text)), open: func() io.Reader { return bytes.NewReader([]byte(text)) }}
}

// findInputs lists the regular files under the given paths, each once, in an order that is the same every time. A path
// itself may be a symbolic link; links inside a folder are not followed, and what is no regular file is left out there.
func findInputs(paths []string) ([]input, error) {
	seen, out := map[string]bool{}, []input(nil)
	for _, p := range paths {
		root, err := filepath.EvalSymlinks(p)
		if err == nil {
			root, err = filepath.Abs(root)
		}
		if err != nil {
			return nil, noInput(p, err)
		}
		info, err := os.Stat(root)
		if err != nil {
			return nil, noInput(p, err)
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil, usagef("--input %s is neither a file nor a folder; give one of the two, or pipe it to standard input", p)
		}
		if err := walk(root, func(path string, size int64) {
			if !seen[path] {
				seen[path] = true
				out = append(out, input{path: path, size: size})
			}
		}); err != nil {
			return nil, failf(err, "--input %s cannot be read as a whole; make it readable or leave it out", p)
		}
	}
	return out, nil
}

func noInput(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &UsageError{Detail: fmt.Sprintf("there is no file or folder %s; give --input a path that exists", path), Cause: err}
	}
	return failf(err, "--input %s cannot be read", path)
}

func walk(root string, found func(path string, size int64)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found(path, info.Size())
		return nil
	})
}

// read opens the source; text is false for a file with a NUL at its beginning, which is closed again.
func (in input) read() (r io.ReadCloser, text bool, err error) {
	if in.open != nil {
		return io.NopCloser(in.open()), true, nil
	}
	f, err := os.Open(in.path)
	if err != nil {
		return nil, false, err
	}
	var head [nulSniff]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false, errors.Join(err, f.Close())
	}
	if bytes.IndexByte(head[:n], 0) >= 0 {
		return nil, false, f.Close()
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), f), f}, true, nil
}
