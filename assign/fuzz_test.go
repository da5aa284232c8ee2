package assign

import (
	"errors"
	"reflect"
	"testing"

	"github.com/millrace-io/millrace/record"
)

// FuzzUserData: whatever a member or a leader sends, it is refused as somebody else's, or is read, and what was read is the same
// once it is written and read again.
func FuzzUserData(f *testing.F) {
	at := record.TaskID{SubTopology: 1, Partition: 2}
	f.Add(EncodeMember(Member{ID: "m", ProcessID: "p", Endpoint: "10.0.0.1:7000", Previous: []record.TaskID{at}, TransactionalID: "t",
		OffsetSums: map[record.TaskID]int64{at: 9}, Shutdown: &Shutdown{Node: "n", Thread: "t", Reason: "it was asked to"}}, 3))
	f.Add(EncodeAssignment(&Plan{Version: 1, TransactionalIDs: []string{"t"}, Assignments: map[string]*Assignment{"m": {Tasks: []record.TaskID{at}}},
		Owners: []Owner{{Task: at, Member: "m", Endpoint: "e", Intended: "n"}}, Shutdown: &Shutdown{Node: "n"}}, "m"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeSubscription("m", b)
		var refused *UserDataError
		switch {
		case err != nil && (!errors.As(err, &refused) || refused.Member != "m"):
			t.Fatal(err)
		case err == nil:
			again, err := DecodeSubscription("m", EncodeMember(m, 1))
			if again.Version = m.Version; err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		owners, err1 := DecodeOwners(b)
		ids, err2 := TransactionalIDs(b)
		shutdown, err3 := DecodeShutdown("m", b)
		for _, err := range []error{err1, err2, err3} {
			if (err == nil) != (err1 == nil) || err != nil && !errors.As(err, &refused) {
				t.Fatalf("%v, %v, %v", err1, err2, err3)
			}
		}
		stale := Stale(Present{Endpoint: "e", Sources: func(record.TaskID) []record.TopicPartition { return nil }}, b)
		if err1 != nil {
			if !stale {
				t.Fatal("what is no assignment is this member's")
			}
			return
		}
		p := &Plan{Version: Version, Owners: owners, TransactionalIDs: ids, Shutdown: shutdown, Assignments: map[string]*Assignment{"m": {}}}
		b = EncodeAssignment(p, "m")
		again, err1 := DecodeOwners(b)
		idsAgain, err2 := TransactionalIDs(b)
		shutdownAgain, err3 := DecodeShutdown("m", b)
		if err := errors.Join(err1, err2, err3); err != nil || !reflect.DeepEqual(again, owners) || !reflect.DeepEqual(idsAgain, ids) || !reflect.DeepEqual(shutdownAgain, shutdown) {
			t.Fatalf("%+v became %+v %v %v, %v", p, again, idsAgain, shutdownAgain, err)
		}
	})
}
