// Package deps pins the libraries of the first milestone until each has a real importer; it is removed then.
package deps

import (
	_ "github.com/IBM/sarama"
	_ "github.com/alecthomas/kong"
	_ "github.com/asynkron/protoactor-go/actor"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/cockroachdb/pebble/v2/sstable"
	_ "github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/cockroachdb/pebble/v2/vfs/errorfs"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/knadh/koanf/parsers/yaml"
	_ "github.com/knadh/koanf/providers/confmap"
	_ "github.com/knadh/koanf/providers/env/v2"
	_ "github.com/knadh/koanf/providers/file"
	_ "github.com/knadh/koanf/v2"
	_ "github.com/mattn/go-isatty"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "google.golang.org/protobuf/proto"
	_ "pgregory.net/rapid"
)
