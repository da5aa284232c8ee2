package millrace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// Actor is one place of a node's tree: an actor, or a task, which is a thread's. Its JSON keys are stable.
type Actor struct {
	// Path begins with the application; the last part is the name. Kind is one of the Kind constants.
	Path string `json:"path"`
	Kind string `json:"kind"`
	// State is the state's name as lifecycle spells it; empty for what has none. Since is when it was entered.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Epoch is the incarnation, Restarts how many there were before it; Cause is the text of Err, which is why the last
	// of them ended or the state is ERROR. Retry is when a replacement starts, if one is pending.
	Epoch    uint64    `json:"epoch,omitempty"`
	Restarts uint64    `json:"restarts"`
	Cause    string    `json:"cause,omitempty"`
	Err      error     `json:"-"`
	Retry    time.Time `json:"retry,omitzero"`
	// Mailbox is how many messages wait; for the query router, how many questions wait at its gates.
	Mailbox int `json:"mailbox"`
	// Stuck says that a thread's loop has not stepped for too long (WithStuckAfter).
	Stuck bool `json:"stuck,omitempty"`
	// DiskFull says that a task, or a store, waits for space on its disk. It is read as ever.
	DiskFull bool `json:"disk_full,omitempty"`
	// Quarantine is set for a task that keeps failing at one record.
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	Children   []Actor     `json:"children,omitempty"`
}

// Tree is the node and everything below it, as published at this moment.
func (n *Node) Tree() Actor {
	root := n.status.board.tree()
	for i := range root.Children {
		if c := &root.Children[i]; c.Kind == KindQuery {
			c.Mailbox = n.router.Outstanding()
		}
	}
	return root
}

// board is the published state of everything in a node's tree.
//
// The mutex protects the places: whoever changes a state says so here, on its own goroutine, before the change has any
// other effect, and an event that is told is in the order of the changes. It is taken after status.mu, and nothing is
// called under it but the hub.
type board struct {
	app string
	hub hub

	mu     sync.Mutex
	places map[string]*place
	// first is the epoch of the first incarnation of each path that this node had; it outlives the places of what closes.
	first map[string]uint64
	// moves counts how often states were entered.
	moves map[entered]int64
}

// place is what is known of one path.
type place struct {
	Actor
	gauge *actors.Gauge
}

func newBoard(app string) *board {
	return &board{app: app, places: map[string]*place{}, first: map[string]uint64{}, moves: map[entered]int64{}}
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func (b *board) node() string              { return "/" + b.app }
func (b *board) thread(name string) string { return b.node() + "/" + name }
func (b *board) task(thread string, id record.TaskID) string {
	return b.thread(thread) + "/task-" + id.String()
}
func (b *board) store(thread, store string, id record.TaskID) string {
	return b.thread(thread) + "/store-" + store + "-" + id.String()
}

// change is what is said of a path. Zero fields of it are what becomes true, but Gauge, which stays.
type change struct {
	kind, state string
	at          time.Time
	epoch       uint64
	cause       error
	retry       time.Time
	stuck       bool
	diskFull    bool
	quarantine  *Quarantine
	gauge       *actors.Gauge
}

// set publishes a change.
func (b *board) set(path string, c change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setLocked(path, c)
}

func (b *board) setLocked(path string, c change) {
	p := b.places[path]
	if p == nil {
		p = &place{}
		b.places[path] = p
		if _, ok := b.first[path]; !ok {
			b.first[path] = c.epoch
		}
	}
	if c.at.IsZero() {
		c.at = time.Now()
	}
	e := Event{Time: c.at, Path: path, Kind: c.kind, Old: p.State, New: c.state, Epoch: c.epoch, Err: c.cause}
	if p.State != c.state {
		b.moves[entered{c.kind, c.state}]++
	}
	if p.State != c.state || p.Epoch != c.epoch {
		p.Since = c.at
	}
	p.Path, p.Kind, p.State, p.Epoch, p.Retry, p.Stuck, p.DiskFull, p.Quarantine = path, c.kind, c.state, c.epoch, c.retry, c.stuck, c.diskFull, c.quarantine
	if p.Err, p.Cause = c.cause, ""; c.cause != nil {
		p.Cause = c.cause.Error()
		e.Cause = p.Cause
	}
	if c.gauge != nil {
		p.gauge = c.gauge
	}
	if first := b.first[path]; c.epoch > first {
		p.Restarts = c.epoch - first
	}
	e.Flags = p.flags()
	if c.kind != KindQuery && c.kind != KindRestore {
		b.hub.tell(e)
	}
}

func (p *place) flags() (flags []string) {
	if p.Stuck {
		flags = append(flags, "stuck")
	}
	if p.DiskFull {
		flags = append(flags, "disk-full")
	}
	if p.Quarantine != nil {
		flags = append(flags, "quarantined")
	}
	return flags
}

// gauge gives a path the gauge of its actor's mailbox.
func (b *board) gauge(path string, g *actors.Gauge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[path]; p != nil {
		p.gauge = g
	}
}

// moveStore publishes the next state of a store partition, and moveTask that of a task; see move.
func (b *board) moveStore(path string, to lifecycle.Store, epoch uint64, cause error) {
	move(b, &lifecycle.StoreTable, path, KindStore, to, change{epoch: epoch, cause: cause}, to == lifecycle.StoreClosed)
}

func (b *board) moveTask(path string, to lifecycle.Task, epoch uint64) {
	move(b, &lifecycle.TaskTable, path, KindTask, to, change{epoch: epoch}, to == lifecycle.TaskClosed)
}

// move publishes a state unless the table does not hold the move. Jobs, the loop and actors publish the same things as
// they come to know them, so what somebody else was faster with is no news, and is left out.
func move[S lifecycle.State](b *board, table *lifecycle.Table[S], path, kind string, to S, c change, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[path]
	if p == nil && to != table.First || p != nil && !table.AllowsNamed(p.State, to.String()) {
		return
	}
	if p != nil {
		c.quarantine, c.diskFull = p.Quarantine, p.DiskFull
		if c.cause == nil {
			c.cause = p.Err
		}
	}
	c.kind, c.state = kind, to.String()
	b.setLocked(path, c)
	if last {
		delete(b.places, path)
	}
}

// quarantined publishes a task's flag; nil takes it away.
func (b *board) quarantined(path string, q *Quarantine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[path]; p != nil {
		c := change{kind: p.Kind, state: p.State, epoch: p.Epoch, quarantine: q, diskFull: p.DiskFull}
		if q != nil {
			c.cause = q.Err
		}
		b.setLocked(path, c)
	}
}

// diskFull publishes why a task or a store waits for space; nil takes the flag away.
func (b *board) diskFull(path string, full error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[path]; p != nil {
		b.setLocked(path, change{kind: p.Kind, state: p.State, epoch: p.Epoch, quarantine: p.Quarantine, diskFull: full != nil, cause: full})
	}
}

// forget takes a path out, and what is below it.
func (b *board) forget(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	within := func(key string) bool { return key == path || strings.HasPrefix(key, path+"/") }
	maps.DeleteFunc(b.first, func(key string, _ uint64) bool { return within(key) })
	for key, p := range b.places {
		if within(key) {
			delete(b.places, key)
			b.hub.tell(Event{Time: time.Now(), Path: key, Kind: p.Kind, Old: p.State, Epoch: p.Epoch})
		}
	}
}

// tree puts the places below each other.
func (b *board) tree() Actor {
	b.mu.Lock()
	defer b.mu.Unlock()
	paths := make([]string, 0, len(b.places))
	for path := range b.places {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, byDepth)
	return b.under(b.node(), paths)
}

// byDepth sorts thread-2 before thread-10.
func byDepth(a, b string) int {
	return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func (b *board) under(path string, paths []string) Actor {
	a := Actor{Path: path}
	if p := b.places[path]; p != nil {
		a = p.Actor
		if p.gauge != nil {
			a.Mailbox = p.gauge.Depth()
		}
	}
	for _, child := range paths {
		if rest, ok := strings.CutPrefix(child, path+"/"); ok && !strings.Contains(rest, "/") {
			a.Children = append(a.Children, b.under(child, paths))
		}
	}
	return a
}
