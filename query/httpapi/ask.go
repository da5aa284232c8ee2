package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// ProtobufType is the media type of questions and replies of querypb. A question may come as BytesType too, from a caller
// that can send bytes but has no name for these.
const (
	ProtobufType = "application/x-protobuf"
	BytesType    = "application/octet-stream"
)

// messages are the questions of querypb by their names in the path of /ask.
var messages = func() map[string]func() query.Question {
	all := map[string]func() query.Question{}
	list := (&querypb.Get{}).ProtoReflect().Descriptor().ParentFile().Messages()
	for i := range list.Len() {
		t, err := protoregistry.GlobalTypes.FindMessageByName(list.Get(i).FullName())
		if err != nil {
			continue
		}
		if _, ok := t.Zero().Interface().(query.Question); ok {
			all[string(list.Get(i).Name())] = func() query.Question { return t.New().Interface().(query.Question) }
		}
	}
	return all
}()

// ask takes a question of querypb as it is and gives the reply as it is, a failure too; its status is the failure's.
func (h *handler) ask(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), query.MaxWait)
	defer cancel()
	fresh, ok := messages[r.PathValue("message")]
	if !ok {
		fail(w, query.Invalid("", query.NoPartition, "there is no question of that name: use a message of querypb, such as Get"))
		return
	}
	body, f := readBody(w, r, ProtobufType, BytesType)
	if f != nil {
		fail(w, f)
		return
	}
	q := fresh()
	if proto.Unmarshal(body, q) != nil {
		fail(w, query.Invalid("", query.NoPartition, "the body is not a message of that name"))
		return
	}
	if right, ok := asked(r, q); !ok {
		forbid(w, r, right)
		return
	}
	reply, err := h.node.Ask(ctx, q)
	reply, err = readable(r, reply), discreet(r, err)
	status := http.StatusOK
	if err != nil {
		f := query.New(query.StoreFailure, q.GetAbout().GetStore(), q.GetAbout().GetPartition())
		errors.As(err, &f)
		reply, status = query.ToReply(f), Status(f.Kind)
	}
	encoded, err := proto.Marshal(reply)
	if err != nil {
		fail(w, query.New(query.StoreFailure, q.GetAbout().GetStore(), q.GetAbout().GetPartition()))
		return
	}
	w.Header().Set("Content-Type", ProtobufType)
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // the client has gone: nobody to tell
}

// readBody reads at most MaxBodyBytes of one of the given types.
func readBody(w http.ResponseWriter, r *http.Request, types ...string) ([]byte, *query.Failure) {
	if !slices.Contains(types, r.Header.Get("Content-Type")) {
		return nil, query.Invalid("", query.NoPartition, "the body is of another type than "+strings.Join(types, " or "))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		return nil, query.Invalid("", query.NoPartition, "the body cannot be read, or has more than 8 MiB")
	}
	return body, nil
}
