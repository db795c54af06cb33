// Package campaign decides what a fleet campaign may do: one intent over many repositories, in waves, from a canary to all. It is
// pure: no clock, no randomness, no I/O. What happened arrives as a Snapshot, time as an argument, and the same of both always gives
// the same plan.
//
// Two doors lead to a change. Plan looks at a snapshot and says which actions the control plane takes next; it knows the stop rule,
// the tolerance, the waves and the windows. Reduce applies one event, of the control plane or of a person, to the campaign's own
// state, and refuses what its table does not hold. Work itself is never touched here: a target is an ordinary task, and it passes
// the same admission, gates and limits as any other.
package campaign
