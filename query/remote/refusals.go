package remote

import "sync/atomic"

// Refusals counts what was not let in, by reason. It may be read at any time.
type Refusals struct {
	connections, peers, unauthenticated, system, remoting, unknownType, notAQuestion, notAGate, noSender, foreignSender, malformed, overloaded atomic.Int64
}

// Counts are the refusals so far, by the names of the reasons:
//
//	connections      MaxConnections were open
//	peers            MaxPeers were asking, or a peer introduced itself in a way that is not admitted
//	unauthenticated  no certificate or token, or a wrong one
//	system           a message that the actor library itself acts on: Stop, Watch, PoisonPill …
//	remoting         a message to the library's remoting, such as a spawn request
//	unknown_type     a message type that this program does not have
//	not_a_question   any other message that is not a question of querypb, answers included
//	not_a_gate       a question to something else than a store partition's gate or the node's
//	no_sender        a question that nobody waits for
//	foreign_sender   a question that wants to be answered at another address than its peer's own
//	malformed        bytes that are not what they say they are
//	overloaded       a question over MaxPeerQuestions, MaxPeerBytes or MaxBytes
func (r *Refusals) Counts() map[string]int64 {
	out := map[string]int64{}
	for name, n := range r.byName() {
		out[name] = n.Load()
	}
	return out
}

// Total is their sum.
func (r *Refusals) Total() (total int64) {
	for _, n := range r.byName() {
		total += n.Load()
	}
	return total
}

func (r *Refusals) byName() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		"connections": &r.connections, "peers": &r.peers, "unauthenticated": &r.unauthenticated, "system": &r.system,
		"remoting": &r.remoting, "unknown_type": &r.unknownType, "not_a_question": &r.notAQuestion, "not_a_gate": &r.notAGate,
		"no_sender": &r.noSender, "foreign_sender": &r.foreignSender, "malformed": &r.malformed, "overloaded": &r.overloaded,
	}
}
