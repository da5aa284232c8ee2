package lifecycle

// Thread is the state of a stream thread.
type Thread uint8

const (
	// ThreadCreated: the thread exists and has not joined the group; no store of it was ever open.
	ThreadCreated Thread = iota
	// ThreadRebalancing: partitions are being given up, taken over or restored, or a failed incarnation is being
	// replaced. Tasks that stay go on; their stores answer.
	ThreadRebalancing
	// ThreadRunning: every assigned task is restored and processing.
	ThreadRunning
	// ThreadPendingShutdown: the last commit is under way and no store takes new questions.
	ThreadPendingShutdown
	// ThreadNotRunning: all is committed and closed. Final.
	ThreadNotRunning
	// ThreadError: supervision has given up on this thread. Final.
	ThreadError
)

func (s Thread) String() string {
	return [...]string{"CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "ERROR"}[s]
}

// ThreadTable is every legal move of a stream thread.
var ThreadTable = Table[Thread]{Kind: "thread", First: ThreadCreated, Moves: []Move[Thread]{
	{ThreadCreated, ThreadRebalancing, "join the group"},
	{ThreadRebalancing, ThreadRunning, "every assigned task is restored"},
	{ThreadRebalancing, ThreadRebalancing, "a new generation, or a failed incarnation is restarted"},
	{ThreadRunning, ThreadRebalancing, "partitions revoked, assigned or lost, or a failed incarnation is restarted"},
	{ThreadCreated, ThreadPendingShutdown, "shutdown"},
	{ThreadRebalancing, ThreadPendingShutdown, "shutdown"},
	{ThreadRunning, ThreadPendingShutdown, "shutdown"},
	{ThreadPendingShutdown, ThreadNotRunning, "all committed and closed"},
	{ThreadCreated, ThreadError, "supervision gave up"},
	{ThreadRebalancing, ThreadError, "supervision gave up"},
	{ThreadRunning, ThreadError, "supervision gave up"},
	{ThreadPendingShutdown, ThreadError, "the last commit or close failed"},
}}

// Node is the state of a whole node, derived from its threads (see DeriveNode) and from Shutdown.
type Node uint8

const (
	// NodeCreated: New has returned and Run was not called yet.
	NodeCreated Node = iota
	// NodeRebalancing: at least one thread is not RUNNING yet; partitions of the others are served.
	NodeRebalancing
	// NodeRunning: every thread is RUNNING.
	NodeRunning
	// NodePendingShutdown: Shutdown was asked for; threads commit and close.
	NodePendingShutdown
	// NodeNotRunning: every thread has stopped cleanly. Final.
	NodeNotRunning
	// NodePendingError: a failure ended the node's work; what can still be closed is being closed.
	NodePendingError
	// NodeError: the node has failed; Run has returned the cause. Final.
	NodeError
)

func (s Node) String() string {
	return [...]string{"CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"}[s]
}

// NodeTable is every legal move of a node.
var NodeTable = Table[Node]{Kind: "node", First: NodeCreated, Moves: []Move[Node]{
	{NodeCreated, NodeRebalancing, "Run"},
	{NodeRebalancing, NodeRunning, "every thread is RUNNING"},
	{NodeRunning, NodeRebalancing, "a thread is REBALANCING"},
	{NodeCreated, NodePendingShutdown, "Shutdown"},
	{NodeRebalancing, NodePendingShutdown, "Shutdown"},
	{NodeRunning, NodePendingShutdown, "Shutdown"},
	{NodePendingShutdown, NodeNotRunning, "every thread has stopped"},
	{NodeCreated, NodePendingError, "the node cannot start"},
	{NodeRebalancing, NodePendingError, "a thread is ERROR, or the answer to a failure was ShutdownNode"},
	{NodeRunning, NodePendingError, "a thread is ERROR, or the answer to a failure was ShutdownNode"},
	{NodePendingShutdown, NodePendingError, "a thread failed while it closed"},
	{NodePendingError, NodeError, "what could be closed is closed"},
}}

// Task is the state of one task of a thread's incarnation.
type Task uint8

const (
	// TaskCreated: assigned; its state is being opened.
	TaskCreated Task = iota
	// TaskRestoring: its state is open and behind the changelog; it takes no input.
	TaskRestoring
	// TaskRunning: it processes input and takes part in commits.
	TaskRunning
	// TaskSuspended: committed and stopped; it waits to be closed or resumed.
	TaskSuspended
	// TaskClosed: its state is closed and its directory unlocked. Final.
	TaskClosed
)

func (s Task) String() string {
	return [...]string{"CREATED", "RESTORING", "RUNNING", "SUSPENDED", "CLOSED"}[s]
}

// TaskTable is every legal move of a task.
var TaskTable = Table[Task]{Kind: "task", First: TaskCreated, Moves: []Move[Task]{
	{TaskCreated, TaskRestoring, "its state is open"},
	{TaskCreated, TaskSuspended, "revoked before it was open"},
	{TaskRestoring, TaskRunning, "its state has reached the end of the changelog"},
	{TaskRestoring, TaskSuspended, "revoked while restoring"},
	{TaskRunning, TaskSuspended, "revoked, lost, or the thread stops"},
	{TaskRunning, TaskRestoring, "a failed commit: the changelog's tail is replayed"},
	{TaskSuspended, TaskRestoring, "assigned again before it was closed"},
	{TaskSuspended, TaskClosed, "closed"},
}}

// Store is the state of one partition of one store on this node.
type Store uint8

const (
	// StoreOpening: its directory is being opened.
	StoreOpening Store = iota
	// StoreRestoring: it replays its changelog and does not answer.
	StoreRestoring
	// StoreActive: it answers with committed state.
	StoreActive
	// StoreStandby: it follows its changelog for another node.
	StoreStandby
	// StoreClosing: it takes no new question and waits for the readers that hold it.
	StoreClosing
	// StoreClosed: nothing of it is open. Final.
	StoreClosed
)

func (s Store) String() string {
	return [...]string{"OPENING", "RESTORING", "ACTIVE", "STANDBY", "CLOSING", "CLOSED"}[s]
}

// StoreTable is every legal move of a store partition.
var StoreTable = Table[Store]{Kind: "store", First: StoreOpening, Moves: []Move[Store]{
	{StoreOpening, StoreRestoring, "open"},
	{StoreRestoring, StoreActive, "restored to the high watermark"},
	{StoreRestoring, StoreStandby, "restored, as a standby"},
	{StoreStandby, StoreActive, "promoted"},
	{StoreActive, StoreRestoring, "the changelog's tail is replayed after a failed commit"},
	{StoreOpening, StoreClosing, "closed before it was open"},
	{StoreRestoring, StoreClosing, "revoked, lost or stopped"},
	{StoreActive, StoreClosing, "revoked, lost or stopped"},
	{StoreStandby, StoreClosing, "revoked, lost or stopped"},
	{StoreClosing, StoreClosed, "the last reader has left"},
}}

// DeriveNode is the state that a node without a shutdown or a failure has, given its threads' states.
func DeriveNode(threads []Thread) Node {
	for _, t := range threads {
		switch t {
		case ThreadError:
			return NodePendingError
		case ThreadRunning:
		default:
			return NodeRebalancing
		}
	}
	if len(threads) == 0 {
		return NodeRebalancing
	}
	return NodeRunning
}
