//go:build !unix

package httpapi

import "io/fs"

// ofRoot is true for every file: modes mean nothing here.
func ofRoot(fs.FileInfo) bool { return true }
