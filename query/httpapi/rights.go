package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/query"
)

// Right is something that a caller may do, as a token file writes it.
type Right string

// The rights. One that is not here is for one store: MayReadStore.
const (
	// MayRead is to ask every store, for its values and for who has them.
	MayRead Right = "read"
	// MayOperate is to give orders about tasks, and to be told the causes of failures, whose texts may hold paths and addresses
	// of the host. It includes MayProbe.
	MayOperate Right = "operate"
	// MayScrape is to see the metrics.
	MayScrape Right = "metrics"
	// MayProbe is to see the state of the node: health, tree, and tasks in quarantine. It shows names, and no values or causes.
	MayProbe Right = "health"
)

// MayReadStore is to ask one store.
func MayReadStore(name string) Right { return MayRead + ":" + Right(name) }

// anyRight is of routes that every caller may use, anyRead of those that show a caller what it may read.
const (
	anyRight Right = "any"
	anyRead  Right = "any read"
)

// store is the store of a right of MayReadStore.
func (r Right) store() (string, bool) {
	return strings.CutPrefix(string(r), string(MayRead)+":")
}

// Caller is who asks, as the tokens know it.
type Caller struct {
	name   string
	rights []Right
	// anonymous callers have shown no token.
	anonymous bool
}

// Name is the token's name, which is no secret.
func (c *Caller) Name() string { return c.name }

// May says whether the caller has a right. MayRead includes that of every store, and MayOperate includes MayProbe.
func (c *Caller) May(r Right) bool {
	has := func(r Right) bool { return slices.Contains(c.rights, r) }
	_, ofStore := r.store()
	switch {
	case r == anyRight:
		return !c.anonymous
	case r == anyRead:
		return slices.ContainsFunc(c.rights, func(r Right) bool { _, one := r.store(); return one || r == MayRead })
	case r == "":
		return false
	}
	return has(r) || ofStore && has(MayRead) || r == MayProbe && has(MayOperate)
}

type callerKey struct{}

// CallerOf is who asks, if the handler is behind Authenticate.
func CallerOf(ctx context.Context) (*Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	return c, ok
}

// may says whether who asks has a right. Nobody is told apart without Authenticate, and everybody has every right but those
// that permit keeps for this machine.
func may(r *http.Request, right Right) bool {
	c, ok := CallerOf(r.Context())
	return !ok || c.May(right)
}

// Trusted callers are told the texts of causes: those with MayOperate or, without Authenticate, those on the node's own machine.
func Trusted(r *http.Request) bool {
	if c, ok := CallerOf(r.Context()); ok {
		return c.May(MayOperate)
	}
	return local(r)
}

// Require lets requests through to next whose caller has the right, and answers the others 401 or 403. It is for a program's
// own handlers behind Authenticate; without Authenticate it lets nobody through.
func Require(right Right, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := CallerOf(r.Context()); !ok {
			unauthenticated(w, false)
		} else if !c.May(right) {
			forbid(w, r, right)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// needed is the right that a request to the route needs: for one about a store, that of the store.
func (rt *route) needed(r *http.Request) Right {
	if store := r.PathValue("store"); rt.right == anyRead && store != "" {
		return MayReadStore(store)
	}
	return rt.right
}

// guarded lets the requests through whose caller may make them.
func (rt *route) guarded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if right := rt.needed(r); !may(r, right) {
			forbid(w, r, right)
			return
		}
		serve(w, r)
	}
}

// Guard lets requests through to next as a Handler does: those whose caller has the right and, without Authenticate, all. It is
// for what shows the same as a route of the interface.
func Guard(right Right, next http.HandlerFunc) http.HandlerFunc {
	return (&route{right: right}).guarded(next)
}

// forbid answers a caller without the right. One who has shown no token is asked for it.
func forbid(w http.ResponseWriter, r *http.Request, right Right) {
	c, _ := CallerOf(r.Context())
	if c.anonymous {
		unauthenticated(w, false)
		return
	}
	w.Header().Set("WWW-Authenticate", challenge+`, error="insufficient_scope"`)
	if right == anyRead {
		right = MayRead
	}
	tell(w, problem{Type: problemType + "Forbidden", Title: "Forbidden", Status: http.StatusForbidden, Retry: query.Never.String(),
		Detail: "the token of " + c.name + " has not the right " + string(right) + ": give it that in the node's token file"})
}

// challenge is what a 401 wants (RFC 6750).
const challenge = `Bearer realm="millrace"`

// unauthenticated asks for a token; shown says that there was one.
func unauthenticated(w http.ResponseWriter, shown bool) {
	want := challenge
	if shown {
		want += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", want)
	tell(w, problem{Type: problemType + "Unauthenticated", Title: "Unauthenticated", Status: http.StatusUnauthorized, Retry: query.Never.String(),
		Detail: "the node wants a bearer token that it knows: send it as Authorization: Bearer <token>"})
}
