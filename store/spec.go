package store

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/millrace-io/millrace/record"
)

// TaskSpec is what a task's state must be.
type TaskSpec struct {
	ID record.TaskID
	// ClusterID is the cluster of the changelogs; another one makes local state meaningless. Empty: not checked.
	ClusterID string
	// Stores are known by their index in this slice from here on.
	Stores []StoreSpec
	// Partition is the partition of every changelog of the task.
	Partition int32
	// Global, if not empty, names a global store: the state is no task's but a node's, of all partitions of one topic. It
	// has one store, whose Changelog is that topic; its position says where it is in each of the partitions; its directory
	// is global-<name>; ID and Partition are zero.
	Global string
}

// name is what the state's directory is called.
func (s *TaskSpec) name() string {
	if s.Global != "" {
		return globalPrefix + s.Global
	}
	return s.ID.String()
}

// StoreSpec is one store of a task. Kind and codecs are names; a change of one discards the local bytes.
type StoreSpec struct {
	Name, Kind, KeyCodec, ValueCodec string
	// Changelog is the changelog's topic; empty if the store has none.
	Changelog string
	// Retention is how long a window or session store keeps a window, in the store's own time; 0: for ever. Another
	// retention than before keeps the bytes.
	Retention time.Duration
	// InMemory keeps the store's rows in memory only: nothing of it is on disk, and every OpenTask begins with an empty one
	// that restores the whole changelog. Changing it discards the bytes.
	InMemory bool
	// Counts count what is done to the store; nil counts nothing.
	Counts *Counts
	// TopicID is the topic's id, so that a topic that was deleted and created again is noticed. Empty: not checked.
	TopicID string
}

func (s *TaskSpec) validate() error {
	names := map[string]bool{}
	for i, st := range s.Stores {
		if st.Name == "" {
			return &SpecError{fmt.Sprintf("store %d of task %s has no name: give it one", i, s.ID)}
		}
		if names[st.Name] {
			return &SpecError{fmt.Sprintf("task %s has two stores %q: rename one", s.ID, st.Name)}
		}
		names[st.Name] = true
		if st.Retention < 0 {
			return &SpecError{fmt.Sprintf("store %q of task %s has a negative retention: use 0 to keep everything", st.Name, s.ID)}
		}
	}
	if s.Global != "" && (len(s.Stores) != 1 || s.Stores[0].Name != s.Global || s.Stores[0].Changelog == "" || s.Partition != 0) {
		return &SpecError{fmt.Sprintf("the state of global store %q has one store of that name, with its topic as the changelog, and partition 0", s.Global)}
	}
	if s.ID.SubTopology < 0 || s.ID.Partition < 0 {
		return &SpecError{fmt.Sprintf("task %s has a negative number", s.ID)}
	}
	return nil
}

var appIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

func validateAppID(id string) error {
	if !appIDPattern.MatchString(id) {
		return &SpecError{fmt.Sprintf("application id %q cannot be a directory: use letters, digits, '.', '_' and '-', at most 200 and no '.' first", id)}
	}
	return nil
}

// OpenReason says in what condition a task's directory was found.
type OpenReason uint8

const (
	// Fresh: there was none.
	Fresh OpenReason = iota + 1
	// Usable: it was opened as it was.
	Usable
	// MovedAside: it could not be used. OpenReport.Why says why; an empty one was opened.
	MovedAside
)

func (r OpenReason) String() string {
	if r < Fresh || r > MovedAside {
		return fmt.Sprintf("OpenReason(%d)", uint8(r))
	}
	return [...]string{"fresh", "usable", "moved aside"}[r-1]
}

// AsideReason says why a directory was moved aside.
type AsideReason uint8

const (
	// NotOpenable: the engine refused it (damaged, files missing, written by a newer engine).
	NotOpenable AsideReason = iota + 1
	// Damaged: a read has found damage since it was opened last, or its registry or offsets cannot be read.
	Damaged
	// Abandoned: the engine in it has failed in this process and cannot be closed.
	Abandoned
	// OtherCluster: it belongs to another Kafka cluster.
	OtherCluster
	// OtherTopic: a changelog was deleted and created again since.
	OtherTopic
)

func (r AsideReason) String() string {
	if r == 0 || r > OtherTopic {
		return "none"
	}
	return [...]string{"the engine cannot open it", "it is damaged", "its engine failed and was abandoned",
		"it belongs to another cluster", "a changelog was created again"}[r-1]
}

// OpenReport says what OpenTask has found and done.
type OpenReport struct {
	// Dir is the directory in use.
	Dir    string
	Reason OpenReason
	// Why is set if Reason is MovedAside; Aside is where the old directory is now.
	Why   AsideReason
	Aside string
	// Cause is the engine's error, if there was one.
	Cause error
	// Changes are the stores that are not what they were, by name. It is empty for a fresh directory.
	Changes map[string]StoreChange
}

// MovedAside reports whether earlier state could not be used.
func (r OpenReport) MovedAside() bool { return r.Reason == MovedAside }

// String says it in one line.
func (r OpenReport) String() string {
	s := r.Dir + ": " + r.Reason.String()
	if r.Reason == MovedAside {
		s += " to " + r.Aside + ": " + r.Why.String()
	}
	if r.Cause != nil {
		s += fmt.Sprintf(" (%v)", r.Cause)
	}
	for name, c := range r.Changes {
		s += fmt.Sprintf("; store %q %s", name, c)
	}
	return s
}

// asideError carries an AsideReason from where it was found to where the directory is moved.
type asideError struct {
	why   AsideReason
	cause error
}

func (e *asideError) Error() string { return fmt.Sprintf("store: %s: %v", e.why, e.cause) }
func (e *asideError) Unwrap() error { return e.cause }

func asAside(err error) *asideError {
	var a *asideError
	if errors.As(err, &a) {
		return a
	}
	return nil
}
