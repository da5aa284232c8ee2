// Package assignpb is the wire form of what members and leader tell each other through the group protocol.
package assignpb

//go:generate sh -c "go build -o ${TMPDIR:-/tmp}/millrace-protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go && protoc --plugin=protoc-gen-go=${TMPDIR:-/tmp}/millrace-protoc-gen-go --go_out=. --go_opt=paths=source_relative assign.proto"
