package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

const envPrefix = "MILLRACE_"

// layers gives kong the settings that are not on the command line: the environment over the configuration file.
type layers struct {
	environ func() []string
	values  *koanf.Koanf
	// environment and file are what values was put together from, path is the file's.
	environment, file *koanf.Koanf
	path              string
	// typed are the flags of the command line.
	typed []string
}

// Validate implements kong.Resolver. There is nothing to say before the command line is read, which names the file.
func (l *layers) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (l *layers) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if l.values == nil {
		if err := l.load(ctx); err != nil {
			return nil, err
		}
	}
	if flag.Name == "help" || !l.values.Exists(flag.Name) {
		return nil, nil
	}
	if list := l.values.Strings(flag.Name); len(list) > 0 && flag.IsSlice() {
		return strings.Join(list, ","), nil
	}
	switch value := l.values.Get(flag.Name).(type) {
	case nil:
		return nil, usagef("--%s has no value in the configuration file; give it one or leave the line out", flag.Name)
	case []any:
		return nil, usagef("--%s has a list in the configuration file; give it one value", flag.Name)
	default:
		return fmt.Sprint(value), nil
	}
}

func (l *layers) load(ctx *kong.Context) error {
	values, known := koanf.New("\x00"), flagNames(ctx)
	environment := koanf.New("\x00")
	if err := environment.Load(env.Provider("\x00", env.Opt{Prefix: envPrefix, EnvironFunc: l.environ, TransformFunc: flagOf}), nil); err != nil {
		return &UsageError{Detail: "the environment cannot be read: " + err.Error(), Cause: err}
	}
	path := environment.String("config")
	for _, p := range ctx.Path {
		if p.Flag == nil {
			continue
		}
		l.typed = append(l.typed, p.Flag.Name)
		if p.Flag.Name == "config" {
			path = ctx.FlagValue(p.Flag).(string)
		}
	}
	if path != "" {
		if err := loadFile(values, path, known, ctx.Model.Name); err != nil {
			return err
		}
	}
	l.values, l.environment, l.file, l.path = values, environment, values.Copy(), path
	return values.Merge(environment)
}

func loadFile(values *koanf.Koanf, path string, known []string, program string) error {
	err := values.Load(file.Provider(path), yaml.Parser())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &UsageError{Detail: fmt.Sprintf("there is no configuration file %s; give --config another path", path), Cause: err}
	case err != nil:
		return &UsageError{Detail: fmt.Sprintf("the configuration file %s cannot be read (%v); give --config a YAML file", path, err), Cause: err}
	}
	for _, key := range values.Keys() {
		if !slices.Contains(known, key) {
			return usagef("%s: there is no setting %q; keys are named as the flags that %s dev --help shows", path, strings.ReplaceAll(key, "\x00", "."), program)
		}
	}
	return nil
}

// flagNamed finds the flag that a sentence begins with.
var flagNamed = regexp.MustCompile(`^--([a-z][a-z-]*)`)

// attribute has a complaint about a setting say where its value comes from, if it is not the command line: whoever reads of
// --threads has written MILLRACE_THREADS, and looks for it in the wrong place.
func (l *layers) attribute(err error) error {
	var usage *UsageError
	if !errors.As(err, &usage) {
		return err
	}
	name := flagNamed.FindStringSubmatch(usage.Detail)
	if name == nil || slices.Contains(l.typed, name[1]) || l.values == nil {
		return err
	}
	place := ""
	switch {
	case l.environment.Exists(name[1]):
		place = variable(name[1])
	case l.file.Exists(name[1]):
		place = name[1] + " in " + l.path
	default:
		return err
	}
	return &UsageError{Detail: fmt.Sprintf("--%s (%s)%s", name[1], place, strings.TrimPrefix(usage.Detail, name[0])), Cause: usage.Cause}
}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagOf turns MILLRACE_STATE_DIR into state-dir.
func flagOf(name, value string) (string, any) {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-"), value
}

// flagNames are the flags of every verb: one file serves them all.
func flagNames(ctx *kong.Context) (names []string) {
	add := func(flags []*kong.Flag) {
		for _, f := range flags {
			names = append(names, f.Name)
		}
	}
	add(ctx.Model.Flags)
	for _, verb := range ctx.Model.Children {
		add(verb.Flags)
	}
	return names
}
