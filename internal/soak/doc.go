// Soak runs the simulator, chaos and storms in turn for as long as it is let, and adds up in a file what was tried and what
// was found.
//
//	make soak FOR=8h
//	go run ./internal/soak -file soak.json -parts sim -rounds 10
//
// It may be stopped at any time (Ctrl-C) and started again with the same file: what was under way is not counted, and is the
// next thing that is done. Each part goes on with its own seeds, so no two rounds are the same. A part that cannot run here,
// because there is no Java, is left out by name: -parts sim.
//
// At the end it prints the totals of the file. It exits with 1 if the file holds a violation, of this run or of one before:
// it is for a person to look at it, mend the cause and begin another file.
package main
