// Package httpapi answers queries over HTTP, for callers that cannot be actors.
//
//	GET /livez                        200 unless the node has failed
//	GET /readyz                       200 if the node is RUNNING, else 503; the body says why
//	GET /stores                       the stores
//	GET /stores/{store}/keys/{key}    200 with the value; 404 with "found": false for an absent key
//	GET /stores/{store}/all           200 with a page of all entries
//	GET /stores/{store}/range         200 with a page of the entries between from and to, both included
//
// Keys and values are in their codecs' text form.
//
// Scans take the parameters limit (1 to 5000 entries; 100 unless given) and, for a range, from and to (absent: open). They
// go through the partitions one after the other, each in the byte order of its keys. An answer has entries and, unless it
// is the last one, next: the path of the next page, which fails with StateStoreMigrated or StateStoreNotAvailable if the
// store that the page before came from is gone, rather than mix two copies of it. A page may be shorter than limit.
//
// A failure is a problem document (RFC 9457) whose retry member says what
// to do: here (503), rediscover (421, with the owner if known), elsewhere (503) or never (404 for an unknown store or
// partition, 400 for other mistakes).
package httpapi
