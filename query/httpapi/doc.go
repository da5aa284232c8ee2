// Package httpapi answers queries over HTTP, for callers that cannot be actors. openapi.yaml describes it; GET /openapi.yaml
// serves that.
//
//	GET  /livez                        200 unless the node has failed
//	GET  /readyz                       200 if the node is RUNNING, else 503; the body says why
//	GET  /startupz                     503 until the node has been RUNNING once; the body has the restores that are under way
//	GET  /stores                       the stores, in every state of the node
//	GET  /stores/{store}/keys/{key}    200 with the value; 404 with "found": false for an absent key
//	GET  /stores/{store}/keys          many keys: key=a&key=b
//	POST /stores/{store}/keys          many keys, or long ones: {"keys": ["a", "b"]}
//	GET  /stores/{store}/all           a page of all entries
//	GET  /stores/{store}/range         a page of the entries between from and to, both included
//	GET  /stores/{store}/prefix        a page of the entries whose encoded keys begin with the encoded prefix
//	GET  /stores/{store}/windows        a page of the windows of all keys, or of key_from to key_to, that begin between from
//	                                    and to, or at time
//	GET  /stores/{store}/windows/{key}  the same of one key
//	GET  /stores/{store}/sessions       a page of the sessions of all keys, or of key_from to key_to, that end at earliest_end
//	                                    or later and start at latest_start or earlier
//	GET  /stores/{store}/sessions/{key} the same of one key
//	GET  /stores/{store}/count         how many entries, with approximate=true an estimate
//	GET  /owners/{store}               who has each partition
//	GET  /owners/{store}/keys/{key}    who has the partition of a key
//	GET  /progress, /progress/{store}  the restores that are under way
//	GET  /tree                         everything in the node: state, incarnation, last cause, mailbox, restarts
//	GET  /events                       what happens in the node, as server-sent events: its transitions, and its progress every second
//	GET  /tasks                        the tasks that keep failing at one record
//	POST /tasks/{task}/{remedy}        skip, retry or dead-letter that record, which the body names
//	POST /ask/{message}                a question of querypb as it is, for package query/remote
//
// The health takes the parameter verbose for a line of text for each check: [+] is well, [-] is why the answer is 503, [!] is told
// and changes nothing.
//
// Keys and values are in their codecs' text form; the keys of windows are written key@start, those of sessions
// key@start..end, but at /windows, /sessions and /owners without their times. Times are in milliseconds since the Unix epoch;
// all bounds are included, and one that is left out is open. A key in a path may hold a slash.
//
// Scans take the parameters limit (1 to 5000 entries; 100 unless given), reverse and resume. They go through the partitions
// one after the other, each in the byte order of its keys; reverse is exactly the opposite order. An answer has entries and,
// unless it is the last one, next: the path of the next page, which fails with StateStoreMigrated or StateStoreNotAvailable
// if the store that the page before came from is gone, rather than mix two copies of it. A page may be shorter than limit;
// one of windows may be empty although there is a next.
//
// Values, pages and the results of many keys have the position that they reflect at least: the next offset of each source
// partition.
//
// Of many keys each has a result; one whose partition does not answer has the failure in its place, and the whole fails only
// if all do.
//
// A failure is a problem document (RFC 9457) with the stable type urn:millrace:failure:<kind>. Its retry says what to do:
// here, after retry_after seconds; rediscover, at the owner if that is known; elsewhere; or never. Status gives its status
// code by its kind. No document holds a path, an address list or an error text of the host; the causes of failed threads are
// in the health for callers on the node's own machine only, or with MayOperate.
//
// Authenticate tells callers apart by bearer tokens, and Handler gives each what it has the right to: see Right. Others are
// answered 401 or 403. Without it everybody who can connect may ask, and an order is taken from the node's own machine only.
//
// An order is not taken from a page of another origin in a browser, and for the record that its body names only: if the task is
// at another one by now, it is OtherRecord. It is answered when it is committed. Its failures are problem documents of the type
// urn:millrace:order:<kind>.
//
// Every size, count and time is bounded: see the constants. Server makes a server with those of connections.
package httpapi
