// Package httpapi answers queries over HTTP, for callers that cannot be actors.
//
//	GET /livez                        200 unless the node has failed
//	GET /readyz                       200 if the node is RUNNING, else 503; the body says why
//	GET /stores                       the stores
//	GET /stores/{store}/keys/{key}    200 with the value; 404 with "found": false for an absent key
//
// Keys and values are in their codecs' text form. A failure is a problem document (RFC 9457) whose retry member says what
// to do: here (503), rediscover (421, with the owner if known), elsewhere (503) or never (404 for an unknown store or
// partition, 400 for other mistakes).
package httpapi
