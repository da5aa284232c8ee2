package topology

import (
	"strings"
)

// handling is what a Builder knows about the topology's handlers.
type handling struct {
	Handlers
	// set says which stages have a handler, fixed which of them answer always the same, and what.
	set, isFixed [Stages]bool
	fixed        [Stages]Response
}

// OnDeserializationError sets the handler for records that the sources' codecs cannot read.
func (b *Builder) OnDeserializationError(h DeserializationHandler) {
	b.handled(Deserialization, h == nil)
	b.handling.Deserialization = h
}

// OnProcessingError sets the handler for records, punctuations and flushes in which user code fails.
func (b *Builder) OnProcessingError(h ProcessingHandler) {
	b.handled(Processing, h == nil)
	b.handling.Processing = h
}

// OnProductionError sets the handler for outputs that cannot be written.
func (b *Builder) OnProductionError(h ProductionHandler) {
	b.handled(Production, h == nil)
	b.handling.Production = h
}

// Always sets a handler that gives one answer to everything that fails in a stage. Other than with a handler of your own
// Build can tell whether that needs a dead-letter topic.
func (b *Builder) Always(s Stage, r Response) {
	if s >= Stages || r > DeadLetter {
		b.fail(s.String(), ConflictingSettings, "there is no %s in %s", r, s)
		return
	}
	same := func(ErrorContext, error) Response { return r }
	switch s {
	case Deserialization:
		b.OnDeserializationError(same)
	case Processing:
		b.OnProcessingError(same)
	default:
		b.OnProductionError(same)
	}
	b.handling.isFixed[s], b.handling.fixed[s] = true, r
}

func (b *Builder) handled(s Stage, missing bool) {
	if missing {
		b.fail(s.String(), MissingFunction, "the error handler is nil; give it a function or leave it out")
	}
	if b.handling.set[s] {
		b.fail(s.String(), ConflictingSettings, "the error handler is set twice; set it once for the topology")
	}
	b.handling.set[s] = true
}

// DeadLetterTopic names the topic for records that a handler answers DeadLetter to. The topic is not made by the
// application, and must not be read by it. Its records are described at NewDeadLetter.
func (b *Builder) DeadLetterTopic(name string) {
	if old := b.handling.DeadLetterTopic; old != "" && old != name {
		b.fail(name, ConflictingSettings, "%q is the dead-letter topic already; a topology has one", old)
	}
	if name == "" {
		b.fail("dead-letter topic", InvalidName, "its name is empty")
	}
	b.handling.DeadLetterTopic = name
}

// checkHandling finds dead letters without a topic, and a dead-letter topic that gets none or that is read.
func (b *Builder) checkHandling() {
	h := &b.handling
	possible := false
	for s := range Stages {
		certain := h.isFixed[s] && h.fixed[s] == DeadLetter
		possible = possible || certain || h.set[s] && !h.isFixed[s]
		if certain && h.DeadLetterTopic == "" {
			b.fail(s.String(), MissingDeadLetterTopic, "name a topic with DeadLetterTopic, or answer Skip or Fail")
		}
	}
	if h.DeadLetterTopic == "" {
		return
	}
	if !possible {
		b.fail(h.DeadLetterTopic, UnusedDeadLetterTopic, "no handler can answer DeadLetter; set one, or leave the topic out")
	}
	b.checkDeadLetterReaders(h.DeadLetterTopic)
}

// checkDeadLetterReaders refuses a dead-letter topic that comes back: a record that failed once would fail there again,
// for ever. The application's id is not known here, so what looks like one of its own topics is refused as well.
func (b *Builder) checkDeadLetterReaders(name string) {
	for _, t := range b.topicOrder {
		if len(t.globals) > 0 && t.name == name {
			b.fail(name, DeadLetterRead, "the application reads its dead-letter topic as global store %q; use another topic", t.globals[0].spec.Name)
		}
		if t.source != nil && !t.internal && t.name == name {
			b.fail(name, DeadLetterRead, "the application reads its dead-letter topic as source %q, where its records would fail again; use another topic", t.source.name)
		}
		if t.internal && strings.HasSuffix(name, RepartitionTopic("", t.name)) {
			b.fail(name, DeadLetterRead, "the dead-letter topic has the name of repartition topic %q, which the application reads; use another topic", t.name)
		}
	}
	for _, d := range b.storeOrder {
		if d.spec.Changelog && strings.HasSuffix(name, ChangelogTopic("", d.spec.Name)) {
			b.fail(name, DeadLetterRead, "the dead-letter topic has the name of the changelog of store %q, which is restored from it; use another topic", d.spec.Name)
		}
	}
}
