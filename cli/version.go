package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

type versionCmd struct {
	Output string `help:"Form of the answer: text or json." short:"o" enum:"text,json" default:"text"`
}

// version is a verb that says what this binary was built from.
type version struct {
	out  io.Writer
	read func() (*debug.BuildInfo, bool)
	json bool
}

// built is what a binary was built from.
type built struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Go      string `json:"go"`
	// Library is Millrace's version, if the program is not Millrace's own.
	Library string `json:"millrace,omitempty"`
	// VCS are the revision, its time, and whether files were changed since, as far as they are known.
	VCS map[string]string `json:"vcs,omitempty"`
}

const library = "github.com/millrace-io/millrace"

func (v *version) run(context.Context) error {
	info, ok := v.read()
	if !ok {
		return failf(nil, "this binary does not say what it was built from; build it with modules")
	}
	b := built{Path: info.Main.Path, Version: cmp.Or(info.Main.Version, "(devel)"), Go: info.GoVersion, VCS: map[string]string{}}
	for _, d := range info.Deps {
		if d.Path == library {
			b.Library = d.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.time" || s.Key == "vcs.modified" {
			b.VCS[strings.TrimPrefix(s.Key, "vcs.")] = s.Value
		}
	}
	if v.json {
		return json.NewEncoder(v.out).Encode(b)
	}
	b.print(v.out)
	return nil
}

func (b built) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %s\n", b.Path, b.Version, b.Go)
	if b.Library != "" {
		fmt.Fprintf(w, "%s %s\n", library, b.Library)
	}
	for _, key := range slices.Sorted(maps.Keys(b.VCS)) {
		fmt.Fprintf(w, "vcs.%s %s\n", key, b.VCS[key])
	}
}
