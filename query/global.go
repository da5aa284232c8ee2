package query

// global says that a handle is of a global store, as topology.GlobalStore says of itself: its one partition on each node
// follows all partitions of a topic.
func global(handle any) bool {
	g, ok := handle.(interface{ StoreGlobal() bool })
	return ok && g.StoreGlobal()
}
