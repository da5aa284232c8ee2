package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
)

type resetCmd struct {
	App          string        `help:"Application id." placeholder:"NAME"`
	Brokers      []string      `help:"Kafka brokers to use." placeholder:"HOST:PORT"`
	StateDir     string        `help:"Directory of the stores on this machine." placeholder:"DIR"`
	StartTimeout time.Duration `help:"Time to wait for a broker." default:"10s"`
	kafkaSettings
	ToEarliest bool     `help:"Read the source topics from their beginning again; the default." xor:"to"`
	ToLatest   bool     `help:"Read only what comes into the source topics from now on." xor:"to"`
	Execute    bool     `help:"Do it. Without, what would be done is printed and nothing is changed."`
	Confirm    string   `help:"Application id once more, for scripts; without, --execute asks for it." placeholder:"NAME"`
	Keep       []string `help:"Topics that stay though this topology does not name them, such as those of a store that it no longer has: names, or patterns with *." placeholder:"TOPIC"`
	Output     string   `help:"Form of the plan: table or json." short:"o" enum:"table,json" default:"table"`
}

// reset is a verb that takes an application back to before its first record. It is done in an order in which it can be
// begun again whenever it was broken off.
type reset struct {
	*command
	resetCmd
}

// resetStep is one thing that is done.
type resetStep struct {
	Action string `json:"action"`
	On     string `json:"on"`
	Detail string `json:"detail"`
	// From and To are offsets; nil where none are set, and From where none was.
	From *int64 `json:"from,omitempty"`
	To   *int64 `json:"to,omitempty"`
}

// resetPlan is all of it.
type resetPlan struct {
	steps   []resetStep
	offsets map[record.TopicPartition]int64
	topics  []string
	// state is the directory of the application, which is locked; nil if there is none.
	state *store.Directory
}

func (r *reset) check() error {
	r.settings = settings{App: r.resetCmd.App, Brokers: r.resetCmd.Brokers, StateDir: r.resetCmd.StateDir, StartTimeout: r.resetCmd.StartTimeout, kafkaSettings: r.resetCmd.kafkaSettings}
	switch {
	case len(r.settings.Brokers) == 0:
		return usagef("reset needs a Kafka cluster; name it with --brokers host:port")
	case r.settings.StartTimeout <= 0:
		return usagef("--start-timeout %s is not above zero; give a time such as 10s", r.settings.StartTimeout)
	case r.Confirm != "" && !r.Execute:
		return usagef("--confirm says nothing without --execute; give both, or neither to see what would be done")
	case r.Confirm != "" && r.Confirm != r.appID():
		return usagef("--confirm %q is not the application id %q; nothing was changed", r.Confirm, r.appID())
	}
	for _, pattern := range r.Keep {
		if _, err := path.Match(pattern, ""); err != nil {
			return usagef("--keep %q is no pattern; give the name of a topic, with * for any characters", pattern)
		}
	}
	return r.checkNames()
}

func (r *reset) run(ctx context.Context) error {
	admin, err := r.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	plan, err := r.plan(ctx, admin)
	if err != nil {
		return err
	}
	defer plan.release()
	if len(plan.steps) == 0 && r.Output == "table" {
		r.tell(fmt.Sprintf("Nothing is there for application %s: no group, no topics, and no state in this directory.", r.appID()))
		return nil
	}
	if err := r.print(plan); err != nil {
		return err
	}
	if !r.Execute {
		r.tell("Nothing was changed; --execute does it.")
		return nil
	}
	if err := r.confirmed(); err != nil {
		return err
	}
	if err := plan.execute(ctx, admin, r.appID()); err != nil {
		return failf(err, "the reset is not complete; give the same command again before any node starts")
	}
	r.tell("Done.")
	return nil
}

// tell says to a person what is no part of the plan.
func (r *reset) tell(text string) { fmt.Fprintln(r.proc.Err, text) }

func (r *reset) admin(ctx context.Context) (*kafka.Admin, error) {
	cfg, err := r.config(r.settings.Brokers, nil)
	if err != nil {
		return nil, err
	}
	reaching, cancel := context.WithTimeout(ctx, r.settings.StartTimeout)
	defer cancel()
	if err := kafka.Reach(reaching, cfg); err != nil {
		return nil, r.unreached(err, r.settings.Brokers, r.settings.StartTimeout)
	}
	return kafka.NewAdmin(cfg)
}

// plan looks at what there is. It fails while anything of the application runs.
func (r *reset) plan(ctx context.Context, admin *kafka.Admin) (p *resetPlan, err error) {
	id := r.appID()
	t, err := r.app.build(id)
	if err != nil {
		return nil, err
	}
	exists, members, err := admin.Group(ctx, id)
	switch {
	case err != nil:
		return nil, failf(err, "the group %s cannot be looked at", id)
	case len(members) > 0:
		return nil, failf(nil, "application %s has %s in its group, to be stopped first (one that was ended by SIGTERM stays until its session time-out): %s", id, plural(len(members), "member"), strings.Join(members, ", "))
	}
	var sources []string
	for _, sub := range t.SubTopologies {
		for _, s := range sub.Sources {
			if !s.Internal && !slices.Contains(sources, s.Topic) {
				sources = append(sources, s.Topic)
			}
		}
	}
	if err := r.own(ctx, admin, sources, t.InternalTopics(id)); err != nil {
		return nil, err
	}
	p = &resetPlan{offsets: map[record.TopicPartition]int64{}}
	if exists {
		p.steps = append(p.steps, resetStep{Action: "delete group", On: id, Detail: "with its offsets"})
	}
	if err := p.addOffsets(ctx, admin, id, sources, r.ToLatest); err != nil {
		return nil, failf(err, "the source topics of %s cannot be looked at", id)
	}
	if err := p.addTopics(ctx, admin, t.InternalTopics(id)); err != nil {
		return nil, failf(err, "the internal topics of %s cannot be looked at", id)
	}
	dir, _, err := r.stateDir(id)
	if err != nil {
		return nil, err
	}
	return p, p.addState(dir, id)
}

// addOffsets plans where the source topics are read from. One that does not exist has no offsets to set.
func (p *resetPlan) addOffsets(ctx context.Context, admin *kafka.Admin, id string, sources []string, latest bool) error {
	infos, err := admin.Topics(ctx, sources...)
	if err != nil {
		return err
	}
	var tps []record.TopicPartition
	for topic, info := range infos {
		for i := range info.Partitions {
			tps = append(tps, record.TopicPartition{Topic: topic, Partition: i})
		}
	}
	slices.SortFunc(tps, func(a, b record.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	ranges, err := admin.Ends(ctx, tps, false)
	if err != nil {
		return err
	}
	was, err := admin.CommittedOffsets(ctx, id, tps)
	if err != nil {
		return err
	}
	for _, tp := range tps {
		to := ranges[tp].Start
		if latest {
			to = ranges[tp].HighWatermark
		}
		step := resetStep{Action: "set offset", On: tp.String(), Detail: "none -> " + number(to), To: &to}
		if o := was[tp]; o.At >= 0 {
			step.From, step.Detail = &o.At, number(o.At)+" -> "+number(to)
		}
		p.offsets[tp] = to
		p.steps = append(p.steps, step)
	}
	return nil
}

func (p *resetPlan) addTopics(ctx context.Context, admin *kafka.Admin, names []string) error {
	infos, err := admin.Topics(ctx, names...)
	if err != nil {
		return err
	}
	for name := range infos {
		p.topics = append(p.topics, name)
	}
	slices.Sort(p.topics)
	for _, name := range p.topics {
		p.steps = append(p.steps, resetStep{Action: "delete topic", On: name, Detail: plural(int(infos[name].Partitions), "partition")})
	}
	return nil
}

// addState locks the state directory, so that no node of this machine starts meanwhile.
func (p *resetPlan) addState(dir, id string) (err error) {
	path := filepath.Join(dir, id)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if p.state, err = store.OpenDirectory(dir, id, store.DirectoryOptions{}); err != nil {
		return err
	}
	p.steps = append(p.steps, resetStep{Action: "delete directory", On: path, Detail: "state of this machine"})
	return nil
}

func (p *resetPlan) release() {
	if p.state != nil {
		_ = p.state.Close() // nothing was written
	}
}

func (r *reset) print(p *resetPlan) error {
	if r.Output == "json" {
		e := json.NewEncoder(r.proc.Out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(append([]resetStep{}, p.steps...))
	}
	var rows [][]string
	for _, s := range p.steps {
		rows = append(rows, []string{s.Action, s.On, s.Detail})
	}
	return (&printer{out: r.proc.Out}).table([]string{"ACTION", "ON", "DETAIL"}, rows)
}

// confirmed asks for the application id. A script has given it as a flag.
func (r *reset) confirmed() error {
	if r.Confirm != "" {
		return nil
	}
	fmt.Fprintf(r.proc.Err, "Type the application id to do this: ")
	typed, _ := bufio.NewReader(r.proc.In).ReadString('\n') // an end without a line is no id
	if typed = strings.TrimSpace(typed); typed != r.appID() {
		return usagef("%q is not the application id; nothing was changed", typed)
	}
	return nil
}

// execute does all of it. The group goes first, because brokers keep that from being done under a member that came
// meanwhile; the offsets come last, so that a node which starts in between reads from where its topology says, and not
// from where it was.
func (p *resetPlan) execute(ctx context.Context, admin *kafka.Admin, id string) error {
	err := admin.DeleteGroup(ctx, id)
	if refused, ok := errors.AsType[*broker.Error](err); ok && refused.Code == nonEmptyGroup {
		return failf(err, "a node of application %s has started meanwhile; stop it", id)
	}
	if err == nil {
		err = admin.DeleteTopics(ctx, p.topics...)
	}
	if err == nil && p.state != nil {
		err = p.state.Remove()
	}
	if err == nil {
		err = admin.CommitOffsets(ctx, id, p.offsets)
	}
	return err
}

// nonEmptyGroup is Kafka's code for a group that has members.
const nonEmptyGroup = 68
