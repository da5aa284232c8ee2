package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
)

type versionCmd struct{}

// version is a verb that says what this binary was built from.
type version struct {
	out  io.Writer
	read func() (*debug.BuildInfo, bool)
}

const library = "github.com/millrace-io/millrace"

func (v *version) run(context.Context) error {
	info, ok := v.read()
	if !ok {
		return failf(nil, "this binary does not say what it was built from; build it with modules")
	}
	fmt.Fprintf(v.out, "%s %s, %s\n", info.Main.Path, cmp.Or(info.Main.Version, "(devel)"), info.GoVersion)
	for _, d := range info.Deps {
		if d.Path == library {
			fmt.Fprintf(v.out, "%s %s\n", d.Path, d.Version)
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.time" || s.Key == "vcs.modified" {
			fmt.Fprintf(v.out, "%s %s\n", s.Key, s.Value)
		}
	}
	return nil
}
