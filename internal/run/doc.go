// Package run owns the life of a run: its states, the events that move it, the
// guards that decide and the reducer that applies them. It is pure: no clock, no
// randomness, no I/O. Time, ids and facts arrive inside commands and events, so
// the same log always gives the same run.
//
// The package refuses everything that is not in its table: an event from the
// wrong state, from the wrong actor, or from a worker whose lease is gone is a
// typed error and changes nothing.
//
// Two steps lead from a request to a new state. Decide turns a command (what
// somebody asks) into an event (what happened), using facts that the server
// holds itself. Reduce turns a run and an event into the next run, the effects
// to write with it, and follow-up events. Only Decide sees policy; Reduce reads
// only what the event says.
package run
