// Package handlers serves the product's HTTP: pages, JSON API, event streams and downloads. It is the only package
// that knows a request. A handler parses, makes one call of db, and renders; it owns the mapping from kinds of
// failure to answers, the cookie, the login, and who may call which route.
//
// It refuses to decide anything about a run (package run does), to speak SQL (db does) and to write HTML (web does).
// Every route is in routes.go and declares who may call it; a route without such a line does not start.
package handlers
