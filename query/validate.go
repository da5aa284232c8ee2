package query

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// Mistake says what is wrong with a question in itself, whoever is asked, or nothing. Gates and stores refuse it with
// InvalidQuery and this text.
func Mistake(q Question) string {
	if m := aboutMistake(q.GetAbout()); m != "" {
		return m
	}
	switch q := q.(type) {
	case *querypb.Get:
		if q.Key == nil {
			return "a Get needs a key"
		}
		return keyMistake(q.Key)
	case *querypb.GetMany:
		return keysMistake(q.Keys)
	case *querypb.Range:
		return rangeMistake(q)
	case *querypb.Locate:
		return keyMistake(q.Key)
	}
	return ""
}

func aboutMistake(a *querypb.About) string {
	switch {
	case a == nil:
	case len(a.AtLeast) > MaxPositions:
		return fmt.Sprintf("it names %d positions, and the limit is %d", len(a.AtLeast), MaxPositions)
	case a.DeadlineMs < 0 || a.TimeoutMs < 0:
		return "its deadline is negative"
	case a.MaxLag != nil && *a.MaxLag < 0:
		return "its max_lag is negative"
	}
	return ""
}

func keyMistake(key []byte) string {
	if len(key) > MaxKeyBytes {
		return fmt.Sprintf("a key has %d bytes, and the limit is %d", len(key), MaxKeyBytes)
	}
	return ""
}

func keysMistake(keys [][]byte) string {
	if len(keys) == 0 {
		return "a GetMany needs a key"
	}
	if len(keys) > MaxKeys {
		return fmt.Sprintf("it asks for %d keys, and the limit is %d", len(keys), MaxKeys)
	}
	size := 0
	for _, k := range keys {
		size += len(k)
	}
	// One key alone may be as long as that of a Get, so that the typed client can always ask.
	if len(keys) > 1 && size > MaxKeysBytes {
		return fmt.Sprintf("its keys have %d bytes, and the limit is %d", size, MaxKeysBytes)
	}
	return keyMistake(keys[0])
}

func rangeMistake(q *querypb.Range) string {
	if q.LimitEntries < 0 || q.LimitBytes < 0 {
		return "the limit of its page is negative"
	}
	if q.From != nil && q.To != nil && bytes.Compare(q.From, q.To) > 0 {
		return "the range's from is after its to"
	}
	for _, k := range [...][]byte{q.From, q.To, q.Resume, q.Windows.GetKeyFrom(), q.Windows.GetKeyTo()} {
		if m := keyMistake(k); m != "" {
			return m
		}
	}
	return windowsMistake(q.Windows)
}

func windowsMistake(w *querypb.Windows) string {
	switch {
	case w == nil:
	case w.KeyFrom != nil && w.KeyTo != nil && bytes.Compare(w.KeyFrom, w.KeyTo) > 0:
		return "the range's first key is after its last"
	case after(w.StartFrom, w.StartTo) || after(w.EndFrom, w.EndTo):
		return "the range's from is after its to"
	}
	return ""
}

func after(from, to *int64) bool { return from != nil && to != nil && *from > *to }

// KindMistake says what is wrong with a question to a store of a kind; the kind of the failure is 0 if nothing is.
// StateStoreTypeMismatch: it asks for windows, and the store has none. InvalidQuery: it asks for ends, and the store keeps
// none, or for a key that does not end with the times of a window.
func KindMistake(q Question, storeKind string) (kind Kind, detail string) {
	windowed := storeKind == windowKind || storeKind == sessionKind
	switch q := q.(type) {
	case *querypb.Range:
		switch w := q.Windows; {
		case w == nil:
		case !windowed:
			return StateStoreTypeMismatch, "it has no windows: its kind is " + storeKind
		case storeKind == windowKind && (w.EndFrom != nil || w.EndTo != nil):
			return InvalidQuery, "a window store keeps starts, so it cannot be asked for ends"
		}
	case *querypb.Get:
		return compositeMistake(storeKind, q.Key)
	case *querypb.GetMany:
		return compositeMistake(storeKind, q.Keys...)
	}
	return 0, ""
}

func compositeMistake(storeKind string, keys ...[]byte) (Kind, string) {
	ok := true
	for _, k := range keys {
		switch storeKind {
		case windowKind:
			_, _, _, ok = record.SplitWindowKey(k)
		case sessionKind:
			_, _, _, ok = record.SplitSessionKey(k)
		}
		if !ok {
			return InvalidQuery, "a key does not end with the times of a " + storeKind
		}
	}
	return 0, ""
}
