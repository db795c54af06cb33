package patch

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// field writes one length-prefixed field, so that no two lists of fields give
// the same bytes.
func field(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

// fileIDs are equal for files that are changed in the same way, wherever in
// the file their hunks lie. Unlike `git patch-id` they keep white space: an
// approval is carried over by them (D-15), and indentation is meaning in some
// languages. The patch's own ID is their sum, in whatever order files come.
func fileIDs(files []*gitdiff.File) []string {
	parts := make([]string, 0, len(files))
	for _, f := range files {
		h := sha256.New()
		for _, s := range []string{
			f.OldName, f.NewName, fmt.Sprint(f.IsNew, f.IsDelete, f.IsRename, f.IsCopy, f.IsBinary),
			fmt.Sprintf("%o %o", f.OldMode, f.NewMode),
		} {
			field(h, s)
		}
		for _, t := range f.TextFragments {
			field(h, "hunk")
			for _, l := range t.Lines {
				field(h, l.Op.String()+l.Line)
			}
		}
		if f.BinaryFragment != nil {
			// Content by the object names of --full-index: they name the
			// exact bytes before and after.
			field(h, f.OldOIDPrefix)
			field(h, f.NewOIDPrefix)
			field(h, string(f.BinaryFragment.RawData))
		}
		parts = append(parts, string(h.Sum(nil)))
	}
	return parts
}

// shape is equal for changes that look alike in different places: same sort
// of files, same changed lines, white space aside. It serves only to group
// (D-15), never to decide.
func shape(files []*gitdiff.File) string {
	parts := make([]string, 0, len(files))
	for _, f := range files {
		h := sha256.New()
		name := f.NewName
		if f.IsDelete {
			name = f.OldName
		}
		field(h, strings.ToLower(path.Ext(name)))
		field(h, fmt.Sprint(f.IsNew, f.IsDelete, f.IsRename, f.IsBinary))
		var lines []string
		for _, t := range f.TextFragments {
			for _, l := range t.Lines {
				if l.Op != gitdiff.OpContext {
					lines = append(lines, l.Op.String()+strings.Join(strings.Fields(l.Line), " "))
				}
			}
		}
		slices.Sort(lines)
		for _, l := range lines {
			field(h, l)
		}
		parts = append(parts, string(h.Sum(nil)))
	}
	return sumSorted(parts)
}

func sumSorted(parts []string) string {
	parts = slices.Sorted(slices.Values(parts))
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// addedLines yields (line number in the new file, text) of a file's added
// lines, in order.
func addedLines(f *gitdiff.File) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for _, t := range f.TextFragments {
			n := int(t.NewPosition)
			for _, l := range t.Lines {
				if l.Op == gitdiff.OpAdd && !yield(n, l.Line) {
					return
				}
				if l.Op != gitdiff.OpDelete {
					n++
				}
			}
		}
	}
}
