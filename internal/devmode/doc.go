// Package devmode is everything on one machine with nothing configured: a private Postgres, sample people to sign in
// as, a local forge with sample repositories, one worker, and one real task that waits for the reader's approval.
//
// It owns the folder in which all of that is kept, the ports, and the order of starting and stopping. It refuses to be
// reachable from other machines, and it takes no short cut into the product: the sample task is submitted through the
// same login and form as any other.
package devmode
