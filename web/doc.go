// Package web owns every page of Signalbox: templ components as functions of the structs declared here, and the pure
// functions that turn states and events into sentences. It refuses I/O, requests, contexts and the database; whoever
// calls it (package handlers) fills the structs and writes the answer.
//
// All text in the structs is untrusted and is only ever written as text. Every action is a form that posts without
// JavaScript; htmx and app.js sharpen it. The fields of each form are listed beside its route in routes.go.
package web
