// Package worker owns one lease from claim to report, in each of the phases execute, verify and publish: the wire
// conversation, the trust in the lease, the workspace, and the order of steps.
//
// It refuses to decide: it never names a state, never says whether something is tried again, and stops at the first
// answer that says so. It holds no database credential and cannot import one. Whatever an agent wrote is read by
// package git, run by package sandbox and reported as bytes.
package worker
