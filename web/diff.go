package web

// DiffView is a parsed patch, ready to show.
type DiffView struct {
	Files    []DiffFile
	NotShown []NotShown // counted banner; never silent
	RawURL   string
	Revision int
	Digest   string
}

// NotShown is a file whose lines are not on the page.
type NotShown struct {
	Path   string
	Reason string // "2,310 lines", "binary, 18 kB → 22 kB"
}

// DiffFile is one changed file.
type DiffFile struct {
	Path    string
	OldPath string // renamed or copied from
	Status  string // added, modified, deleted, renamed, copied, mode
	OldMode string
	NewMode string
	Binary  bool
	Added   int
	Removed int
	Marks   []string // "CI configuration", "lockfile", "generated", "outside the scope"
	Hidden  int      // hidden or bidirectional characters found
	Note    string   // why lines are missing, in words
	Hunks   []DiffHunk
}

// DiffHunk is a run of lines.
type DiffHunk struct {
	Header string
	Lines  []DiffLine
}

// DiffLine is one line with its numbers; Op is ' ', '+' or '-'.
type DiffLine struct {
	Op    byte
	Old   int // 0: none
	New   int
	Spans []Span
	NoEOL bool
}

// Span is a piece of text with the class of its syntax token; Class comes from a fixed list, never from input.
type Span struct {
	Class string
	Text  string
}
