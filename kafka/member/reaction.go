package member

import "github.com/millrace-io/millrace/broker"

// Transport stands for a request without an answer.
const Transport int16 = -2

// reaction is what the machine does about a code.
type reaction uint8

const (
	fail    reaction = iota // the group does not take this member; also what is not in the table
	goOn                    // no error
	again                   // the same once more, after a back-off
	rename                  // join with the member id that came with the answer
	rejoin                  // a rebalance began: join, keeping what is owned
	hold                    // wait for the sync, then once more
	lose                    // thrown out: drop everything and join anew
	fence                   // another process uses this instance id: lose, and fail if it happens again soon
	nothing                 // the next tick asks anyway
)

// reactions is everything that an answer can cause, a line per code and a column per request. What is not here
// (23 inconsistent protocol, 26 invalid session time-out, 30 authorisation, bugs) is a failure.
var reactions = []struct {
	code                            int16
	join, sync, heartbeat, toCommit reaction
	why                             string
}{
	{0, goOn, goOn, goOn, goOn, "no error"},
	{7, again, rejoin, nothing, again, "a slow broker, or a slow offsets topic: outages never end a member"},
	{13, again, rejoin, nothing, again, "network exception"},
	{14, again, rejoin, nothing, again, "the coordinator is loading"},
	{15, again, rejoin, nothing, again, "no coordinator for 9 to 11 s after one dies"},
	{16, again, rejoin, nothing, again, "the coordinator moved"},
	{22, lose, lose, lose, lose, "the group went on without this member; Committed knows when that was its own join"},
	{25, lose, lose, lose, lose, "the session ran out, or the rebalance did"},
	{27, again, rejoin, rejoin, hold, "a rebalance began, or the new generation is not synced yet; still a member"},
	{69, fail, lose, lose, lose, "kafka.embedded says so where a real broker says 25"},
	{79, rename, fail, fail, fail, "KIP-394: the first join only hands out the id"},
	{82, fence, fence, fence, fence, "another process took the instance id over"},
	{89, again, rejoin, nothing, again, "a quota: later"},
	{Transport, again, rejoin, nothing, again, "cut, refused, timed out, or the leader could not assign: silence is no loss"},
}

func react(op broker.Op, code int16) reaction {
	for i := range reactions {
		if r := &reactions[i]; r.code == code {
			return map[broker.Op]reaction{broker.OpJoinGroup: r.join, broker.OpSyncGroup: r.sync, broker.OpHeartbeat: r.heartbeat, broker.OpOffsetCommit: r.toCommit}[op]
		}
	}
	return fail
}

// Phase is where the member stands.
type Phase uint8

const (
	// Joining: a JoinGroup is on its way or about to be. What is owned stays owned, heartbeats go on, and commits of the
	// last generation are still taken by the coordinator.
	Joining Phase = iota
	// Syncing: the generation is new and the assignment is not known. Commits wait.
	Syncing
	// Stable: the assignment is known and all of it is owned.
	Stable
	// Revoking: as Stable, and partitions of the last generation are being given up.
	Revoking
	// Failed: the group does not take this member. Final.
	Failed
	// Left: closed. Final.
	Left
)

func (p Phase) String() string {
	return [...]string{"joining", "syncing", "stable", "revoking", "failed", "left"}[p]
}

// phaseMove is one legal move.
type phaseMove struct {
	from, to Phase
	why      string
}

// phaseMoves is every legal move between phases.
var phaseMoves = []phaseMove{
	{Joining, Joining, "try again, or anew after a loss"},
	{Joining, Syncing, "a generation"},
	{Syncing, Joining, "the sync did not work out"},
	{Syncing, Stable, "an assignment that takes nothing away"},
	{Syncing, Revoking, "an assignment that takes something away"},
	{Stable, Joining, "a rebalance, or a loss"},
	{Revoking, Joining, "given up, or a loss"},
	{Joining, Failed, "refused"}, {Syncing, Failed, "refused"}, {Stable, Failed, "refused"}, {Revoking, Failed, "refused"},
	{Joining, Left, "closed"}, {Syncing, Left, "closed"}, {Stable, Left, "closed"}, {Revoking, Left, "closed"}, {Failed, Left, "closed"},
}
