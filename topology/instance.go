package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/record"
)

// Instance is a sub-topology at work in one task. It is for the task's goroutine only. It lets panics through.
type Instance struct {
	host    Host
	sub     *SubTopology
	inputs  map[*node]any
	parts   []part // by node index
	sources map[string]func(*record.Raw) error
	readers map[string]reader
	due     []*punctuation
	// punctuations is how many calls there were of what was due.
	punctuations uint64
	inited       []int
	// timelines are the stream times of windowed aggregations.
	timelines []*timeline
	// from is the stream time at which Init began; punctuations up to it were called before.
	from int64
}

// Handlers are what the topology does about records that fail.
func (in *Instance) Handlers() Handlers { return *in.sub.handlers }

// Sink names the node that writes a topic, the first one if there are several; empty if there is none.
func (in *Instance) Sink(topic string) string {
	for _, s := range in.sub.Sinks {
		if s.Topic == topic {
			return s.Name
		}
	}
	return ""
}

type part struct{ init, flush, close func() error }

// Instantiate makes the closures of the sub-topology for one task. Nothing is opened before Init. A host that is nil is an error.
func (s *SubTopology) Instantiate(host Host) (*Instance, error) {
	if host == nil {
		return nil, errors.New("topology: Instantiate needs a host")
	}
	in := &Instance{host: host, sub: s, from: -1, inputs: map[*node]any{}, sources: map[string]func(*record.Raw) error{}, readers: map[string]reader{}}
	in.parts = make([]part, s.nodes[len(s.nodes)-1].index+1)
	for _, n := range s.nodes {
		in.enter(n)
	}
	return in, nil
}

// enter gives the closure that takes n's input, as any, and makes it the first time.
func (in *Instance) enter(n *node) any {
	f, ok := in.inputs[n]
	if !ok {
		f = n.make(in, n)
		in.inputs[n] = f
	}
	return f
}

func (in *Instance) global(name string) (GlobalState, error) {
	if s := in.host.Global(name); s != nil {
		return s, nil
	}
	return nil, storeError(name, errors.New("the node has no global store of that name; open one that is not global by its own handle"))
}

func (in *Instance) store(name string) (StateStore, error) {
	if slices.Contains(in.sub.Globals, name) {
		return nil, storeError(name, errors.New("it is global and can only be read; open it by the handle of NewGlobalStore"))
	}
	if s := in.host.Store(name); s != nil {
		return s, nil
	}
	return nil, storeError(name, errors.New("the task does not have it"))
}

// Init opens stores and outputs and calls the processors' Init, parents first. After an error only Close is allowed.
func (in *Instance) Init() error {
	in.from = in.host.StreamTime()
	defer func() { in.from = -1 }()
	for i := range in.parts {
		if in.parts[i].init == nil {
			continue
		}
		in.inited = append(in.inited, i)
		if err := in.parts[i].init(); err != nil {
			return err
		}
	}
	return nil
}

// Source gives what takes the records of a topic, by its name in Kafka. It returns *DeserializationError,
// *ProcessorError, *StoreError or *SinkError; nothing of raw is kept longer than the batch it belongs to.
func (in *Instance) Source(topic string) (func(raw *record.Raw) error, error) {
	if f := in.sources[topic]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("topology: sub-topology %d has no source for topic %q", in.sub.ID, topic)
}

// Flush forwards what aggregations hold back, parents first, so that chained ones see each other's results. It ends at the first
// error of a processor, a store or an output.
func (in *Instance) Flush() error {
	for i := range in.parts {
		if f := in.parts[i].flush; f != nil {
			if err := f(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the processors whose Init was called, children first, and joins their errors. A second Close does
// nothing.
func (in *Instance) Close() error {
	var errs []error
	for _, i := range slices.Backward(in.inited) {
		if f := in.parts[i].close; f != nil {
			errs = append(errs, f())
		}
	}
	in.inited, in.due = nil, nil
	return errors.Join(errs...)
}
