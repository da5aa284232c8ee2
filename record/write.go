package record

// Write is one change of one key of a task's store: what a task hands out, and what a state directory takes.
type Write struct {
	// Store is the store's index among the stores of its task.
	Store int
	// Key and Value are the encoded bytes. Key is not nil. A nil Value deletes; an empty one is a value.
	Key, Value []byte
	// Timestamp is the value's, in milliseconds since the Unix epoch.
	Timestamp int64
}
