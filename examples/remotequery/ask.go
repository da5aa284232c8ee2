package main

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"

	"github.com/millrace-io/millrace/query/querypb"
)

// ask asks the node at an address who has the partition of a key, and then its store actor for the value. The two names of
// actors, and keys and values as bytes, are all that it has to know.
func ask(address, key string) (string, error) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	// The library answers by a connection of its own, so an asker listens too. A token or certificates would go in here.
	remoting := remote.NewRemote(system, remote.Configure("127.0.0.1", 0, remote.WithEndpointWriterQueueSize(1024)))
	remoting.Start()
	defer remoting.Shutdown(false)

	about := &querypb.About{Store: "stock", TimeoutMs: patience.Milliseconds()}
	where, err := request(system, actor.NewPID(address, "remotequery/query"), &querypb.Locate{About: about, Key: []byte(key)})
	if err != nil {
		return "", err
	}
	l := where.GetLocations().GetLocations()[0]
	if l.Owner != "" {
		address = l.Owner
	}
	store := actor.NewPID(address, fmt.Sprintf("remotequery/query/stock/%d", l.Partition))
	reply, err := request(system, store, &querypb.Get{About: about, Key: []byte(key)})
	if err != nil {
		return "", err
	}
	answer := "no such key"
	if v := reply.GetValue(); v.Present {
		answer = fmt.Sprint(int64(binary.BigEndian.Uint64(v.Value))) // codec.Int64
	}
	return fmt.Sprintf("%s: %s, says %s at %s", key, answer, store.Id, store.Address), nil
}

// patience is how long a question may take.
const patience = 10 * time.Second

// request sends one question. Its answer is a value or one failure, which says what to do.
func request(system *actor.ActorSystem, to *actor.PID, question any) (*querypb.Reply, error) {
	answer, err := system.Root.RequestFuture(to, question, patience+time.Second).Result()
	if err != nil {
		return nil, fmt.Errorf("%s at %s does not answer: %w", to.Id, to.Address, err)
	}
	reply, ok := answer.(*querypb.Reply)
	if !ok {
		return nil, fmt.Errorf("%s at %s answers with a %T", to.Id, to.Address, answer)
	}
	if f := reply.GetFailure(); f != nil {
		return nil, fmt.Errorf("%s: %s, retry %s %s", to.Id, f.Kind, f.Retry, f.Detail)
	}
	return reply, nil
}
