package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// formatVersion is the format of everything below a task's directory. Version 1 is the first.
const formatVersion = 1

// registry says what a task's directory holds. It is kept in it, so that adding, removing or renaming a store never makes
// another store read its bytes.
type registry struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	// Last is the highest number that was ever given; numbers are not used again.
	Last   uint16       `json:"last"`
	Stores []registered `json:"stores"`
}

type registered struct {
	Number     uint16 `json:"number"`
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	KeyCodec   string `json:"keyCodec"`
	ValueCodec string `json:"valueCodec"`
	Changelog  string `json:"changelog,omitempty"`
	TopicID    string `json:"topicID,omitempty"`
	InMemory   bool   `json:"inMemory,omitempty"`
}

// StoreChange is what became of one store when a task was opened with another set of stores than before.
type StoreChange uint8

const (
	// StoreAdded: it is new and restores from its changelog.
	StoreAdded StoreChange = iota + 1
	// StoreRemoved: the topology no longer has it; its bytes were deleted.
	StoreRemoved
	// StoreRenamed: the same changelog under another name; its bytes were kept.
	StoreRenamed
	// StoreReset: its kind, a codec or its changelog is another one, so its bytes mean nothing any more; they were deleted
	// and it restores from its changelog.
	StoreReset
)

func (c StoreChange) String() string {
	if c < StoreAdded || c > StoreReset {
		return fmt.Sprintf("StoreChange(%d)", uint8(c))
	}
	return [...]string{"added", "removed", "renamed", "reset"}[c-1]
}

// errNumbersUsedUp moves a directory aside after 65,535 different stores.
var errNumbersUsedUp = errors.New("store: every store number was used")

// decodeRegistry reads the format first: the rest of a newer one may mean anything.
func decodeRegistry(dir string, b []byte) (*registry, error) {
	var f struct{ Format int }
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("store: the registry cannot be read: %w", err)
	}
	if f.Format > formatVersion {
		return nil, &FormatError{Dir: dir, Found: f.Format, Supported: formatVersion}
	}
	r := &registry{}
	if err := json.Unmarshal(b, r); err != nil || r.Format < 1 {
		return nil, fmt.Errorf("store: the registry cannot be read (format %d): %w", r.Format, err)
	}
	return r, nil
}

func (r *registry) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

// mismatch says why the whole directory cannot belong to the spec.
func (r *registry) mismatch(spec *TaskSpec) AsideReason {
	if r.Cluster != "" && spec.ClusterID != "" && r.Cluster != spec.ClusterID {
		return OtherCluster
	}
	for _, s := range spec.Stores {
		for _, old := range r.Stores {
			if old.Changelog == s.Changelog && old.TopicID != "" && s.TopicID != "" && old.TopicID != s.TopicID {
				return OtherTopic
			}
		}
	}
	return 0
}

// reconciled is the registry after a spec was applied to it, and what must be done to the bytes.
type reconciled struct {
	next *registry
	// numbers has the number of each store of the spec, in its order.
	numbers []uint16
	// drop are the numbers whose bytes go.
	drop    []uint16
	changes map[string]StoreChange
}

// reconcile matches stores by name, then what is left over by topic id (a renamed store that keeps its changelog).
func (r *registry) reconcile(spec *TaskSpec) (*reconciled, error) {
	out := &reconciled{changes: map[string]StoreChange{},
		next: &registry{Format: formatVersion, Cluster: spec.ClusterID, Last: r.Last}}
	left := slices.Clone(r.Stores)
	matched := make([]*registered, len(spec.Stores))
	for i, s := range spec.Stores {
		matched[i] = take(&left, func(old registered) bool { return old.Name == s.Name })
	}
	for i, s := range spec.Stores {
		if matched[i] == nil && s.TopicID != "" {
			matched[i] = take(&left, func(old registered) bool { return old.TopicID == s.TopicID && s.sameBytes(old) })
		}
	}
	for i, s := range spec.Stores {
		if err := out.add(s, matched[i]); err != nil {
			return nil, err
		}
	}
	for _, old := range left {
		out.drop = append(out.drop, old.Number)
		out.changes[old.Name] = StoreRemoved
	}
	return out, nil
}

// take removes the first match from left.
func take(left *[]registered, match func(registered) bool) *registered {
	i := slices.IndexFunc(*left, match)
	if i < 0 {
		return nil
	}
	found := (*left)[i]
	*left = slices.Delete(*left, i, i+1)
	return &found
}

// add gives a store its number: the old one if its bytes still mean the same, else a new one.
func (c *reconciled) add(s StoreSpec, old *registered) error {
	number := uint16(0)
	switch {
	case old == nil:
		c.changes[s.Name] = StoreAdded
	case !s.sameBytes(*old):
		c.changes[s.Name] = StoreReset
		c.drop = append(c.drop, old.Number)
	default:
		number = old.Number
		if old.Name != s.Name {
			c.changes[s.Name] = StoreRenamed
		}
	}
	if number == 0 {
		if c.next.Last == math.MaxUint16-1 {
			return errNumbersUsedUp
		}
		c.next.Last++
		number = c.next.Last
	}
	c.numbers = append(c.numbers, number)
	c.next.Stores = append(c.next.Stores, registered{Number: number, Name: s.Name, Kind: s.Kind, KeyCodec: s.KeyCodec,
		ValueCodec: s.ValueCodec, Changelog: s.Changelog, TopicID: s.TopicID, InMemory: s.InMemory})
	return nil
}

// sameBytes reports whether the bytes of old mean the same under s. Another changelog (or none before) makes the stored
// offset meaningless, except under the same topic id.
func (s *StoreSpec) sameBytes(old registered) bool {
	return s.Kind == old.Kind && s.KeyCodec == old.KeyCodec && s.ValueCodec == old.ValueCodec && s.Changelog == old.Changelog &&
		s.InMemory == old.InMemory
}
