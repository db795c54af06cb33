// Package git owns every git process that Signalbox starts: mirrors, work trees, patches, commits, pushes and merges.
//
// It works for people who do not trust what they read: repository content, ref names, URLs and above all a work tree
// that an agent wrote. So it refuses to run git on any directory whose configuration somebody else may have written:
// a work tree is read by this package's own code (snapshot.go), never by git, and the repositories of the local forge
// are read through a git directory of our own. It holds no credential beyond the call that needs it, it never forces
// a push, and it knows nothing of runs, states or retries: failures carry a reason code and that is all.
package git
