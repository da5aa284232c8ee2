package store_test

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
)

func Example() {
	dir, err := store.OpenDirectory("state", "wordcount", store.DirectoryOptions{FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	state, report, err := dir.OpenTask(store.TaskSpec{Stores: []store.StoreSpec{{Name: "counts", Kind: "key-value", Changelog: "wordcount-counts-changelog"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Reason)

	err = state.Apply(&store.Unit{
		Writes:    []store.Write{{Key: []byte("mill"), Value: []byte("2")}, {Key: []byte("race"), Value: []byte("1")}},
		Changelog: []store.StoreOffset{{Next: 2}},
		Position:  record.Position{{Topic: "lines"}: 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range state.Scan(0, nil, nil, true) {
		fmt.Printf("%s=%s %v\n", e.Key, e.Value, err)
	}
	next, _ := state.Offset(0)
	fmt.Println("changelog", next, state.Close())
	// Output:
	// fresh
	// race=1 <nil>
	// mill=2 <nil>
	// changelog 2 <nil>
}
