package web

// DiffView is a parsed patch, ready to show.
type DiffView struct {
	Files    []DiffFile
	NotShown []NotShown // counted banner; never silent
	RawURL   string
	Revision int
	Digest   string

	View      DiffChoice
	Hidden    int         // hidden or bidirectional characters in all files, shown or left out by the filter
	Filter    *FilterView // nil: there is nothing to choose from
	Since     *SinceView  // what changed since an earlier revision
	SpaceOnly int         // pairs of lines that differ only in white space and are shown as unchanged
	// Switches lead to the other ways to look at it; none where there is only this one.
	Switches []Link
	Notes    *LineNotes // nil: the lines take no comments
	Ticks    *TickCount // nil: nobody is asked
}

// longPatch is how many lines a browser lays out at once without being held up. Beyond it, those out of sight wait until they are
// scrolled to, at the price of a page whose length is a guess until then.
const longPatch = 400

func (d DiffView) long() bool {
	n := 0
	for _, f := range d.Files {
		for _, h := range f.Hunks {
			n += len(h.Lines)
		}
	}
	return n > longPatch
}

// DiffChoice is how a person wants to look at a patch. It is in the address and changes nothing about what is decided.
type DiffChoice struct {
	Split       bool
	IgnoreSpace bool
	Since       int // compare with this earlier revision; 0: with none
	Files       FileFilter
	Lines       LineRanges // outside the hunks, that are shown too
}

// NotShown is a file whose lines are not on the page.
type NotShown struct {
	Path   string
	Reason string // "2,310 lines", "binary, 18 kB → 22 kB"
	Href   string // where it can be read; empty where it cannot
}

// DiffFile is one changed file.
type DiffFile struct {
	N       int    // of the file in the patch, from 1
	In      string // begins the permalinks where several patches are on one page
	Path    string
	OldPath string // renamed or copied from
	Status  string // added, modified, deleted, renamed, copied, mode
	OldMode string
	NewMode string
	Binary  bool
	Added   int
	Removed int
	Marks   []string // "CI configuration", "lockfile", "generated", "outside the scope"
	Ends    []string // lines that differ in nothing but their ends, counted
	Hidden  int      // hidden or bidirectional characters found
	Note    string   // why lines are missing, in words
	Hunks   []DiffHunk
	Load    string    // "Load the diff (2,310 lines)"; empty where all of it is here
	Place   DiffPlace // where it is loaded from
	View    DiffChoice
	Notes   *LineNotes // nil: its lines take no comments
	Tick    *Tick      // nil: nobody is asked
	Gaps    []DiffGap  // before each hunk and after the last one; nil where the lines there are not known
	Alone   bool       // on its own page, or for want of place loaded by itself
}

// DiffHunk is a run of lines.
type DiffHunk struct {
	Header string
	Lines  []DiffLine
}

// DiffLine is one line with its numbers; Op is ' ', '+' or '-'.
type DiffLine struct {
	Op     byte
	Old    int // 0: none
	New    int
	Pair   int // number, on the other side, of the line that this one took the place of; 0: none
	Spans  []Span
	NoEOL  bool
	Space  bool   // white space differs from the old line
	Around bool   // no line of the patch: it takes no comment
	End    string // "line end CRLF → LF", where the line on the other side has another; on the new side
}

// Span is a piece of text with the class of its syntax token; Class comes from a fixed list, never from input.
type Span struct {
	Class   string
	Text    string
	Changed bool // of a word that the line on the other side does not have
}
