// Package page is the live page of a node: what is in it, what happens in it and what its stores hold, for a person with a
// browser. docs/page.md shows it.
//
//	GET /               the page; store, ask, key, to and resume are the question that it answers
//	GET /page/live      the parts of it that change
//	GET /page/{file}    its style and its script
//
// Everything else is left to the handler of the HTTP interface (package httpapi), which also answers the page's questions: a
// person sees what a program would.
//
// The page is made on the server. Its script asks for the parts that change when /events tells that something has, and puts
// in what is new. Without script it is a still picture with a link that makes a new one. Nothing of it comes from elsewhere, and
// its Content-Security-Policy lets no script in but its own file. Causes are for those who are told them
// at /tree, and who may not see that does not see the page.
package page
