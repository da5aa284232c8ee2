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

// reactionRow is one line of the table of answers. The codes are Kafka's; what they were seen to mean on a real broker
// is in the last column.
type reactionRow struct {
	op   broker.Op
	code int16
	do   reaction
	why  string
}

// reactions is everything that an answer can cause. What is not here is a failure (23 inconsistent protocol, 26 invalid
// session time-out, 30 authorisation, bugs).
var reactions = []reactionRow{
	{broker.OpJoinGroup, 0, goOn, "a generation"},
	{broker.OpJoinGroup, 79, rename, "KIP-394: the first join only hands out the id"},
	{broker.OpJoinGroup, 25, lose, "the id is not known any more"},
	{broker.OpJoinGroup, 22, lose, "not seen on a real broker"},
	{broker.OpJoinGroup, 82, fence, "another process took the instance id over"},
	{broker.OpJoinGroup, 14, again, "the coordinator is loading"},
	{broker.OpJoinGroup, 15, again, "no coordinator for 9 to 11 s after one dies"},
	{broker.OpJoinGroup, 16, again, "the coordinator moved"},
	{broker.OpJoinGroup, 27, again, "the group is between two generations"},
	{broker.OpJoinGroup, Transport, again, "cut, refused or timed out"},

	{broker.OpSyncGroup, 0, goOn, "an assignment"},
	{broker.OpSyncGroup, 27, rejoin, "the leader died or another member joined"},
	{broker.OpSyncGroup, 22, lose, "the group went on without this member"},
	{broker.OpSyncGroup, 25, lose, "thrown out between join and sync"},
	{broker.OpSyncGroup, 69, lose, "kafka.embedded says so where a real broker says 25"},
	{broker.OpSyncGroup, 82, fence, "another process took the instance id over"},
	{broker.OpSyncGroup, 14, rejoin, "the coordinator is loading"},
	{broker.OpSyncGroup, 15, rejoin, "no coordinator"},
	{broker.OpSyncGroup, 16, rejoin, "the coordinator moved"},
	{broker.OpSyncGroup, Transport, rejoin, "no answer, or the leader could not assign"},

	{broker.OpHeartbeat, 0, goOn, "still a member"},
	{broker.OpHeartbeat, 27, rejoin, "a rebalance began; still a member"},
	{broker.OpHeartbeat, 22, lose, "the group went on without this member"},
	{broker.OpHeartbeat, 25, lose, "the session ran out, or the rebalance did"},
	{broker.OpHeartbeat, 69, lose, "kafka.embedded says so where a real broker says 25"},
	{broker.OpHeartbeat, 82, fence, "another process took the instance id over"},
	{broker.OpHeartbeat, 14, nothing, "the coordinator is loading"},
	{broker.OpHeartbeat, 15, nothing, "no coordinator"},
	{broker.OpHeartbeat, 16, nothing, "the coordinator moved"},
	{broker.OpHeartbeat, Transport, nothing, "no answer; the session clock decides"},

	{broker.OpOffsetCommit, 0, goOn, "Kafka has the offsets"},
	{broker.OpOffsetCommit, 27, hold, "the new generation is not synced yet"},
	{broker.OpOffsetCommit, 22, lose, "the group went on; Committed knows when that was this member's own join"},
	{broker.OpOffsetCommit, 25, lose, "thrown out"},
	{broker.OpOffsetCommit, 69, lose, "kafka.embedded says so where a real broker says 25"},
	{broker.OpOffsetCommit, 82, fence, "another process took the instance id over"},
	{broker.OpOffsetCommit, 7, again, "the offsets topic is slow"},
	{broker.OpOffsetCommit, 14, again, "the coordinator is loading"},
	{broker.OpOffsetCommit, 15, again, "no coordinator"},
	{broker.OpOffsetCommit, 16, again, "the coordinator moved"},
	{broker.OpOffsetCommit, Transport, again, "no answer: the same offsets again do no harm"},
}

func react(op broker.Op, code int16) reaction {
	for i := range reactions {
		if r := &reactions[i]; r.op == op && r.code == code {
			return r.do
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
