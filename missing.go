package millrace

import "fmt"

// MissingTopicError is a topic that the topology reads or writes and that does not exist. Millrace creates internal
// topics only: the partition count of the others is the application's decision.
type MissingTopicError struct {
	Topic string
	// Use is what the topology does with it: "reads", "writes" or "sends dead letters to".
	Use string
}

// Error names the topic and what to do.
func (e *MissingTopicError) Error() string {
	return fmt.Sprintf("millrace: topic %q, which the topology %s, does not exist: create it, then start again", e.Topic, e.Use)
}
