package cli

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/kafka"
)

// own fails if the application is another program's, by what it has left behind: positions in topics that are neither sources nor
// internal topics of this topology, and internal topics that it does not name. Such a reset would delete the group and leave the
// changelogs, and after it the application would read its input once more into the state that it has already.
//
// An application whose topology was changed leaves the same behind, and application shop-eu has topics that look like those of an
// application shop. A person has to say so, by name: nothing in the cluster tells them apart.
func (r *reset) own(ctx context.Context, admin *kafka.Admin, sources, internal []string) error {
	id := r.appID()
	read, err := admin.GroupTopics(ctx, id)
	if err != nil {
		return failf(err, "the offsets of the group %s cannot be looked at", id)
	}
	if strange := r.strange(read, append(slices.Clone(sources), internal...)); len(strange) > 0 {
		return failf(nil, "the group %s has read %s, and the topology of this program reads %s: give the command to the program that runs as %s, or, if that no longer reads them, add --keep %s",
			id, some(strange), some(sources), id, strings.Join(strange, ","))
	}
	all, err := admin.TopicNames(ctx)
	if err != nil {
		return failf(err, "the topics of the cluster cannot be listed")
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !internalOf(id, name) })
	if strange := r.strange(all, internal); len(strange) > 0 {
		return failf(nil, "there is %s, and the topology of this program names %s: give the command to the program that runs as %s, or, if that no longer uses them or they are another application's, add --keep %s",
			some(strange), some(internal), id, strings.Join(strange, ","))
	}
	return nil
}

// internalOf says that a topic is named as the internal ones of an application are.
func internalOf(id, topic string) bool {
	return strings.HasPrefix(topic, id+"-") && (strings.HasSuffix(topic, "-changelog") || strings.HasSuffix(topic, "-repartition"))
}

// strange are the names that are neither known nor to be kept.
func (r *reset) strange(names, known []string) (out []string) {
	for _, name := range names {
		kept := func(pattern string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }
		if !slices.Contains(known, name) && !slices.ContainsFunc(r.Keep, kept) {
			out = append(out, name)
		}
	}
	return out
}

// some names a few of many.
func some(names []string) string {
	const few = 3
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > few:
		return strings.Join(names[:few], ", ") + " and " + strconv.Itoa(len(names)-few) + " more"
	}
	return strings.Join(names, ", ")
}

// plural counts things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
