package remote

import (
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// questions are the messages that may come in, by their full names: every message of query.proto that is a question, so
// that one that is added there is admitted here.
var questions = func() map[string]protoreflect.MessageType {
	all := map[string]protoreflect.MessageType{}
	messages := (&querypb.Get{}).ProtoReflect().Descriptor().ParentFile().Messages()
	for i := range messages.Len() {
		name := messages.Get(i).FullName()
		t, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			continue
		}
		if _, ok := t.Zero().Interface().(query.Question); ok {
			all[string(name)] = t
		}
	}
	return all
}()

// Questions are the full Protobuf names of the messages that may be sent to a gate.
func Questions() (names []string) {
	for name := range questions {
		names = append(names, name)
	}
	return names
}

// typeRefusal is the counter for a type name that is no question.
func (r *Refusals) typeRefusal(name string) *atomic.Int64 {
	switch {
	case strings.HasPrefix(name, "actor."):
		return &r.system
	case strings.HasPrefix(name, "remote."):
		return &r.remoting
	}
	if _, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err != nil {
		return &r.unknownType
	}
	return &r.notAQuestion
}

// gateID is the id of a store partition's gate.
func gateID(app, store string, partition int32) string {
	return app + "/query/" + store + "/" + strconv.Itoa(int(partition))
}

// target is what a PID's id names: the node (store is empty) or a store partition.
type target struct {
	store     string
	partition int32
}

// parseTarget is false for an id that is none of the application's gates.
func parseTarget(app, id string) (t target, ok bool) {
	rest, ok := strings.CutPrefix(id, app+"/query")
	if !ok || rest == "" {
		return t, ok
	}
	slash := strings.LastIndexByte(rest, '/')
	if rest[0] != '/' || slash < 2 {
		return t, false
	}
	n, err := strconv.ParseInt(rest[slash+1:], 10, 32)
	if err != nil || strings.Contains(rest[1:slash], "/") || gateID(app, rest[1:slash], int32(n)) != id {
		return t, false
	}
	return target{rest[1:slash], int32(n)}, true
}

// addressed makes the question's About name what its PID does, unless it names something itself.
func (t target) addressed(q query.Question) query.Question {
	if t.store == "" {
		return q
	}
	m := q.ProtoReflect()
	about := m.Mutable(m.Descriptor().Fields().ByName("about")).Message().Interface().(*querypb.About)
	if about.Store == "" {
		about.Store = t.store
	}
	if about.Partition == nil && !query.OfNode(q) {
		about.Partition = &t.partition
	}
	return q
}

// decode reads a question of an admitted type.
func decode(t protoreflect.MessageType, data []byte) (query.Question, error) {
	m := t.New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return m.(query.Question), nil
}
