// Package db owns Postgres: it is the only package that speaks SQL, and its
// generated queries are hidden from everybody else. Store.Apply is the one door
// through which a run's state changes.
//
// What pages and API read of a tenant is asked as signalbox_app through Store.reads, which sees that tenant alone; the rest
// is asked as signalbox_engine, which sees all, with the tenant in each condition.
//
// Every exported method begins and ends its own transaction; no transaction is
// handed out, and nothing slow happens inside one. Rows are locked in one order:
// queue item, run, lease, gate, task, audit; cancelling a task locks its run
// first. Locks are FOR NO KEY UPDATE, which does not block the foreign-key
// checks of inserts.
package db
