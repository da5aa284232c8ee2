package query

import "time"

// The limits of every size, count and time of a question. What is over one of them is InvalidQuery, or is cut to it where
// that is said; the typed client stays below them by itself.
const (
	// MaxKeyBytes is the longest key that may be asked for or that may bound a range: Kafka's own default for a record.
	MaxKeyBytes = 1 << 20
	// MaxKeys and MaxKeysBytes are the most keys, and bytes of keys, of one GetMany message.
	MaxKeys      = 10_000
	MaxKeysBytes = 2 << 20
	// MaxValuesBytes ends a Values early: it holds the values of the first keys only then, at least one.
	MaxValuesBytes = 2 << 20
	// MaxPositions is the most entries of at_least.
	MaxPositions = 1_000
	// PageEntries and PageBytes bound a page of a scan that names no bounds; the Max ones cut what a question names. One
	// entry is always allowed, however long it is. A page also ends after PageTime, so that a scan over a cold disk does
	// not keep the next question waiting.
	PageEntries    = 500
	PageEntriesMax = 5_000
	PageBytes      = 256 << 10
	PageBytesMax   = 1 << 20
	PageTime       = 20 * time.Millisecond
	// CountTime is the most that an exact count may take, and ApproximateTime what an approximate one reads for.
	CountTime       = 10 * time.Second
	ApproximateTime = 10 * time.Millisecond
	// MaxWait is how long a question may wait for a store if it names no earlier deadline; a later one is cut to it.
	MaxWait = 10 * time.Second
	// MaxOutstanding is how many questions may wait for one store partition; the next one is Overloaded.
	MaxOutstanding = 10_000
	// MaxWaiters is how many of them may wait for a position; the next one is Overloaded.
	MaxWaiters = 1_000
	// FanOut is how many partitions a GetMany or Count of the typed client asks at the same time.
	FanOut = 16
)
