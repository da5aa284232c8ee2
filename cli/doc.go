// Package cli is the command line of a Millrace application, for a main of three lines:
//
//	func main() { cli.Main(cli.App{Name: "orders", Topology: build}) }
//
// Two verbs are a node. "run" runs the application's topology against a Kafka cluster. "dev" brings everything along that
// is needed to try it: an embedded broker (unless --brokers names a cluster), topics, a state directory and, if the
// application has a Demo, text to count.
//
// The others ask a node that runs elsewhere, at --addr, over HTTP: "get STORE KEY", "scan STORE" with --from, --to, --prefix,
// --reverse and --limit, "stores", and "owners STORE [KEY]". Of a window store "get STORE key@start" is one window, and "get
// STORE key" with --at, --since and --until those of a key; of a session store it is key@start..end, and the sessions of a key
// that touch the time between --since and --until. They print a table, whose columns are those of its first thousand
// entries, or with -o json what the node answers (entries: one a line).
//
// "tree" prints what is in the node: path, state, incarnation, restarts, mailbox, flags and last cause. "task list" prints the
// tasks that keep failing at one record, and "task skip", "task retry" and "task dead-letter", with the task and the record as
// "task list" prints them, say what is to be done with it, and return when that is committed. A node takes such orders from
// its own machine only. One that it does not carry out ends with the exit code of its class as questions do: 13 if the task is
// not in quarantine, or at another record than was named.
//
// "reset" takes an application back to before its first record: its offsets, its internal topics, and its state on this machine.
// It prints what it would do; --execute, and the application id typed or given with --confirm, does it.
//
// "completion" prints what makes bash, zsh or fish complete verbs, flags, their values and the names of stores. The script asks the
// binary at each press of the key, under the name that the binary was started by, and need not be made again for a later one.
//
// What a caller may rely on:
//
//  1. Settings come from flags, then from environment variables (MILLRACE_STATE_DIR for --state-dir), then from a
//     configuration file (--config or MILLRACE_CONFIG, YAML, keys named as the flags), then from defaults. Secrets, the
//     password for the brokers and tokens, come from the environment or a file of their own only, and nothing shows them.
//  2. The exit code is 0 for success, 1 for a failure and 2 for a mistake in the command line or the settings. A failure
//     is one sentence on standard error that names the thing and the fix; never a stack trace. A question that a node does
//     not answer ends with 10 if it may be asked again here, 11 if the owner must be found first (owners that a failure
//     names are followed, and one of them may be gone), 12 if another node may answer, and 13 if none will. An absent key
//     is an answer.
//  3. With --once, standard output gets the result and nothing else. What a person should know meanwhile goes to standard
//     error; without --once it is what the verb is for and goes to standard output. The log goes to standard error.
//  4. The first interrupt (Ctrl-C) commits, leaves the group, closes the stores and ends. A second one, a quarter of a
//     second later or more, gives up waiting and says what was abandoned; a temporary state directory stays then, and is
//     named. A termination signal (SIGTERM) does the same as the first interrupt but stays in the group, so that a process
//     that is started again is back without a rebalance; --leave leaves.
//  5. "dev" feeds each line once. Processes of one application claim the feeding in the topic <app>-feed-claims, whose order
//     decides; a claimant that has died is followed by its own restart at once, and by others after the session time-out.
//     A count with --once and without --app deletes the topics that it made on a cluster; its group, which has no member
//     and no offset left then, is removed by the broker.
//  6. A state directory is made with mode 0700. One that exists keeps its mode, and is told of if others may read it.
//  7. --remote opens an address for other processes, which is what the other nodes name as the owner. On anything but
//     loopback it needs --remote-token-file, or certificates by which callers are known.
//  8. Run never ends the process and handles no signals by itself; Main does both.
package cli
