// Package ask carries the questions of querypb in HTTP requests from one process of a test to another, whole: a View, a scan
// and a position work as they do in one process. It is as simple as that can be, and guards nothing.
package ask
