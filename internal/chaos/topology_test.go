package main

import "testing"

func TestTopologyBuildsAndHasItsTasks(t *testing.T) {
	top, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(top.SubTopologies) * partitions; n != tasks {
		t.Errorf("%d tasks, and the run waits for %d", n, tasks)
	}
}
