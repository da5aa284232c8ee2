package httpapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// asked is the right that a question of querypb needs, and whether who asks has it. One that names no store is about all of
// them; a list may be had all the same, and holds what readable leaves.
func asked(r *http.Request, q query.Question) (Right, bool) {
	if store := q.GetAbout().GetStore(); store != "" {
		return MayReadStore(store), may(r, MayReadStore(store))
	}
	switch q.(type) {
	case *querypb.ListStores, *querypb.ListRestores:
		return anyRead, may(r, anyRead)
	}
	return MayRead, may(r, MayRead)
}

// mayRead says whether who asks may know of a store.
func mayRead(r *http.Request, store string) bool { return may(r, MayReadStore(store)) }

// readable leaves of a reply what the caller may know.
func readable(r *http.Request, reply *querypb.Reply) *querypb.Reply {
	if may(r, MayRead) {
		return reply
	}
	switch a := reply.GetAnswer().(type) {
	case *querypb.Reply_Stores:
		list := slices.DeleteFunc(slices.Clone(a.Stores.GetStores()), func(s *querypb.Store) bool { return !mayRead(r, s.GetName()) })
		return &querypb.Reply{Answer: &querypb.Reply_Stores{Stores: &querypb.StoreList{Stores: list}}}
	case *querypb.Reply_Restores:
		list := slices.DeleteFunc(slices.Clone(a.Restores.GetRestores()), func(s *querypb.Restore) bool { return !mayRead(r, s.GetStore()) })
		return &querypb.Reply{Answer: &querypb.Reply_Restores{Restores: &querypb.RestoreList{Restores: list}}}
	}
	return reply
}

// discreet is a failure as the caller may be told it: the node's own sentence about a store that it does not have names those
// that it has.
func discreet(r *http.Request, err error) error {
	if f := (*query.Failure)(nil); errors.As(err, &f) && f.Kind == query.UnknownStateStore && !may(r, MayRead) {
		return query.New(query.UnknownStateStore, f.Store, f.Partition)
	}
	return err
}
