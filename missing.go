package millrace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/kafka"
)

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

// InternalTopic is a topic of the application itself, as it has to be made.
type InternalTopic struct {
	Name       string
	Partitions int32
	// Replication is -1 for the cluster's default (WithReplication).
	Replication int16
	Configs     map[string]string
}

// Command is the line for a shell that makes the topic, with the script that comes with Kafka.
func (t InternalTopic) Command(brokers []string) string {
	words := []string{"kafka-topics.sh --bootstrap-server", strings.Join(brokers, ","), "--create --topic", t.Name, "--partitions", fmt.Sprint(t.Partitions)}
	if t.Replication > 0 {
		words = append(words, "--replication-factor", fmt.Sprint(t.Replication))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
		words = append(words, "--config", quoted(name+"="+t.Configs[name]))
	}
	return strings.Join(words, " ")
}

// quoted keeps a shell from reading more into a word than its letters.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("=.,_-:", r)
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// MissingInternalTopicsError has every internal topic that does not exist and that the node may not make
// (WithCreateTopics).
type MissingInternalTopicsError struct {
	Brokers []string
	// Topics are in the order of their names.
	Topics []InternalTopic
}

// Error has the commands that make the topics, one after the other on one line.
func (e *MissingInternalTopicsError) Error() string {
	commands := make([]string, len(e.Topics))
	for i, t := range e.Topics {
		commands[i] = t.Command(e.Brokers)
	}
	return fmt.Sprintf("millrace: internal topics are missing, and this node may not make them: create all %d, then start again: %s", len(e.Topics), strings.Join(commands, "; "))
}

func missingInternal(brokers []string, missing []kafka.TopicSpec) error {
	e := &MissingInternalTopicsError{Brokers: brokers}
	for _, s := range missing {
		e.Topics = append(e.Topics, InternalTopic(s))
	}
	slices.SortFunc(e.Topics, func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
	return e
}
