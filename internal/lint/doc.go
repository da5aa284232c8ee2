// Package lint holds the rules of docs/architecture.md and CONTRIBUTING.md as tests. It parses and never type-checks, so
// that it stays fast, and it looks only at files that git would commit.
package lint
