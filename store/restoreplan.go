package store

import (
	"fmt"
	"time"
)

// LogRange is what a changelog partition holds: offsets from Start up to, and without, HighWatermark.
type LogRange struct{ Start, HighWatermark int64 }

// Discard says why a restore threw the local copy of a store away.
type Discard uint8

const (
	// DiscardNone: the local copy was kept, or there was none.
	DiscardNone Discard = iota
	// DiscardNoOffset: there were entries and no offset; nobody knows what they are.
	DiscardNoOffset
	// DiscardBehindLog: the log no longer holds the stored offset, so changes (deletions too) may be missing.
	DiscardBehindLog
	// DiscardBeyondEnd: the log ends before the stored offset, so it is another log, or it has lost its end.
	DiscardBeyondEnd
	// DiscardTooOld: deletions that the local copy missed may have been compacted away.
	DiscardTooOld
)

func (d Discard) String() string {
	if d > DiscardTooOld {
		return fmt.Sprintf("Discard(%d)", uint8(d))
	}
	return [...]string{"kept", "no offset", "the log starts after the stored offset", "the log ends before the stored offset",
		"older than the changelog keeps deletions"}[d]
}

// local is what is stored of a store.
type local struct {
	stored, empty bool
	next          int64
	// age is the time since the stored offset was known to be the end.
	age time.Duration
}

// decision is how a restore goes: what to do with the local copy, and where to read from.
type decision struct {
	discard Discard
	from    int64
}

// restoreRules is the whole decision. The first row that applies wins. A copy at the very end of the log has missed
// nothing, however old it is; that row comes before the one about age, and after those that doubt the log.
var restoreRules = []struct {
	name    string
	applies func(l local, log LogRange, ageMax time.Duration) bool
	discard Discard
	// begin reads from the start of the log, else from the stored offset.
	begin bool
}{
	{"nothing stored", func(l local, _ LogRange, _ time.Duration) bool { return !l.stored && l.empty }, DiscardNone, true},
	{"entries without an offset", func(l local, _ LogRange, _ time.Duration) bool { return !l.stored }, DiscardNoOffset, true},
	{"beyond the end", func(l local, log LogRange, _ time.Duration) bool { return l.next > log.HighWatermark }, DiscardBeyondEnd, true},
	{"before the start", func(l local, log LogRange, _ time.Duration) bool { return l.next < log.Start }, DiscardBehindLog, true},
	{"at the end", func(l local, log LogRange, _ time.Duration) bool { return l.next == log.HighWatermark }, DiscardNone, false},
	{"too old", func(l local, _ LogRange, ageMax time.Duration) bool { return l.age > ageMax }, DiscardTooOld, true},
	{"a delta", func(local, LogRange, time.Duration) bool { return true }, DiscardNone, false},
}

func decide(l local, log LogRange, ageMax time.Duration) decision {
	for _, r := range restoreRules {
		if !r.applies(l, log, ageMax) {
			continue
		}
		if r.begin {
			return decision{r.discard, log.Start}
		}
		return decision{r.discard, l.next}
	}
	panic("store: the last restore rule applies always")
}
