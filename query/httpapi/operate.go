package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// Operator is a Node that tells what is below it, and takes orders about tasks. /tree and /tasks are there for every node;
// one that is no Operator says so.
type Operator interface {
	Node
	// Tree is everything in the node, as JSON gives it. causes says whether the texts of causes may be told.
	Tree(causes bool) any
	// Quarantined are the tasks that keep failing at one record, in order.
	Quarantined() []Quarantined
	// Order has a task deal with the record at which it is in quarantine, and returns when that is committed. Its error is an
	// *OrderError.
	Order(ctx context.Context, r Remedy, task record.TaskID, source record.TopicPartition, offset int64) error
}

// Quarantined is a task that keeps failing at one record.
type Quarantined struct {
	Task      string `json:"task"`
	Thread    string `json:"thread"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Attempts is how often it has failed; Retry is when it is tried again.
	Attempts int       `json:"attempts"`
	Retry    time.Time `json:"retry"`
	Cause    string    `json:"cause"`
}

// Remedy is what is to be done with a record: the last part of an order's path.
type Remedy string

// The remedies.
const (
	Skip       Remedy = "skip"
	Retry      Remedy = "retry"
	DeadLetter Remedy = "dead-letter"
)

// OrderKind is why an order was not carried out.
type OrderKind string

// The kinds of OrderError.
const (
	// TaskNotHere: no thread of this node has the task. NotQuarantined: the task is not in quarantine. OtherRecord: it is, at
	// another record than the order names.
	TaskNotHere    OrderKind = "TaskNotHere"
	NotQuarantined OrderKind = "NotQuarantined"
	OtherRecord    OrderKind = "OtherRecord"
	// OrderPending: another order for the task is being carried out. OrderLost: the thread was restarted or has lost the task.
	OrderPending OrderKind = "OrderPending"
	OrderLost    OrderKind = "OrderLost"
	// RecordFails: the record was tried and has failed again. NoDeadLetter: no dead letter could be made of it.
	RecordFails  OrderKind = "RecordFails"
	NoDeadLetter OrderKind = "NoDeadLetter"
	// OrderUnknown: nobody has waited for its end. It may be carried out.
	OrderUnknown OrderKind = "OrderUnknown"
	// NotAllowed: who asks may not give orders here. NoOperator: nobody may.
	NotAllowed OrderKind = "NotAllowed"
	NoOperator OrderKind = "NoOperator"
)

// orderKinds are the status codes of the kinds, and what to do.
var orderKinds = map[OrderKind]struct {
	status int
	retry  query.RetryClass
}{
	TaskNotHere:    {http.StatusMisdirectedRequest, query.Elsewhere},
	NotQuarantined: {http.StatusConflict, query.Never},
	OtherRecord:    {http.StatusConflict, query.Never},
	OrderPending:   {http.StatusConflict, query.Here},
	OrderLost:      {http.StatusServiceUnavailable, query.Here},
	RecordFails:    {http.StatusUnprocessableEntity, query.Here},
	NoDeadLetter:   {http.StatusUnprocessableEntity, query.Never},
	OrderUnknown:   {http.StatusGatewayTimeout, query.Here},
	NotAllowed:     {http.StatusForbidden, query.Never},
	NoOperator:     {http.StatusNotImplemented, query.Never},
}

// OrderError is why an order was not carried out.
type OrderError struct {
	Kind OrderKind
	// Detail is one sentence that holds nothing of the host.
	Detail string
	Cause  error
}

func (e *OrderError) Error() string { return e.Detail }

// Unwrap gives the cause.
func (e *OrderError) Unwrap() error { return e.Cause }

// orderProblem begins the type of every OrderError; its kind is the rest.
const orderProblem = "urn:millrace:order:"

func refuse(w http.ResponseWriter, err error) {
	e := (*OrderError)(nil)
	if !errors.As(err, &e) {
		fail(w, err)
		return
	}
	k, ok := orderKinds[e.Kind]
	if !ok {
		k.status, k.retry = http.StatusServiceUnavailable, query.Here
	}
	tell(w, problem{Type: orderProblem + string(e.Kind), Title: string(e.Kind), Status: k.status, Detail: e.Detail, Retry: k.retry.String()})
}

// local says that who asks is on the node's own machine.
func local(r *http.Request) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return net.ParseIP(host).IsLoopback()
}

// crossOrigin finds what a browser sends for a page of somebody else's.
var crossOrigin = http.NewCrossOriginProtection()

// Permit says who may give orders, or do else what costs a node time. Behind Authenticate those with MayOperate, which the route has looked at, may. Where callers
// are not told apart it is whoever is on this machine, and no page of another origin in a browser there: neither by a request
// across origins, nor by a name of its own that leads here. The error is an *OrderError of kind NotAllowed.
func Permit(r *http.Request) error {
	_, known := CallerOf(r.Context())
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	switch {
	case crossOrigin.Check(r) != nil:
		return &OrderError{Kind: NotAllowed, Detail: "orders are not taken from pages of another origin"}
	case known:
		return nil
	case !local(r):
		return &OrderError{Kind: NotAllowed, Detail: "orders are taken from the node's own machine only, or from callers who are known"}
	case host != "localhost" && net.ParseIP(host) == nil:
		return &OrderError{Kind: NotAllowed, Detail: "orders are taken under the node's address only, or under localhost"}
	}
	return nil
}

func (h *handler) operator(w http.ResponseWriter) (Operator, bool) {
	o, ok := h.node.(Operator)
	if !ok {
		refuse(w, &OrderError{Kind: NoOperator, Detail: "this node is not operated over HTTP"})
	}
	return o, ok
}

func (h *handler) tree(w http.ResponseWriter, r *http.Request) {
	if o, ok := h.operator(w); ok {
		write(w, http.StatusOK, "application/json", o.Tree(Trusted(r)))
	}
}

func (h *handler) tasks(w http.ResponseWriter, r *http.Request) {
	if o, ok := h.operator(w); ok {
		write(w, http.StatusOK, "application/json", told(o, r))
	}
}

// told are the tasks in quarantine as the caller may know of them.
func told(o Operator, r *http.Request) []Quarantined {
	all, here := append([]Quarantined{}, o.Quarantined()...), Trusted(r)
	for i := range all {
		if !here {
			all[i].Cause = Silenced
		}
	}
	return all
}

// orderTime bounds how long an order is waited for: the record may take its time, and is committed.
const orderTime = 20 * time.Second

// confirmed names the record that an order is about, so that none is given about another one.
type confirmed struct {
	Topic     *string `json:"topic"`
	Partition *int32  `json:"partition"`
	Offset    *int64  `json:"offset"`
}

func (h *handler) order(w http.ResponseWriter, r *http.Request) {
	o, ok := h.operator(w)
	if !ok {
		return
	}
	if err := Permit(r); err != nil {
		refuse(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTime)
	defer cancel()
	id, remedy, err := ordered(r)
	body, f := readBody(w, r, "application/json")
	switch {
	case err != nil:
		fail(w, err)
		return
	case f != nil:
		fail(w, f)
		return
	}
	var at confirmed
	if json.Unmarshal(body, &at) != nil || at.Topic == nil || at.Partition == nil || at.Offset == nil {
		fail(w, query.Invalid("", query.NoPartition, `the body does not name the record: {"topic": "lines", "partition": 3, "offset": 41}, as GET /tasks gives it`))
		return
	}
	if err := o.Order(ctx, remedy, id, record.TopicPartition{Topic: *at.Topic, Partition: *at.Partition}, *at.Offset); err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, "application/json", map[string]any{"task": id.String(), "remedy": remedy, "topic": *at.Topic, "partition": *at.Partition, "offset": *at.Offset})
}

// ordered reads an order's path.
func ordered(r *http.Request) (id record.TaskID, remedy Remedy, err error) {
	id, ok := record.ParseTaskID(r.PathValue("task"))
	if !ok {
		return id, "", query.Invalid("", query.NoPartition, "a task is named as 0_3: its sub-topology and its partition")
	}
	remedy = Remedy(r.PathValue("remedy"))
	if remedy != Skip && remedy != Retry && remedy != DeadLetter {
		return id, "", query.Invalid("", query.NoPartition, "a task may be told to skip, retry or dead-letter")
	}
	return id, remedy, nil
}
