// Package howto holds the Go of docs/howto.md, docs/from-kafka-streams.md and docs/from-goka.md as tests, so that it compiles
// and does what those pages say. internal/lint checks that the pages show it as it is.
package howto
