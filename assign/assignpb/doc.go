// Package assignpb is the wire form of what members and leader tell each other through the group protocol.
package assignpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative assign.proto
