// Package patch owns what can be known from the bytes of a git patch: files,
// classes, digests, secrets, hidden text, and a bounded model for showing it.
// It refuses to apply anything, to touch a file, and to believe a patch: every
// byte is untrusted, and whatever is not plain `git diff` output is an error.
//
// Patches are made with
//
//	git diff --binary --full-index --no-color --no-ext-diff --no-textconv
//
// and the default prefixes a/ and b/.
package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"signalbox/internal/fault"
)

// Codes of faults from Parse.
const (
	CodeTooLarge   = "PATCH_TOO_LARGE"
	CodeUnreadable = "PATCH_UNREADABLE"
	CodeUnsafePath = "PATCH_UNSAFE_PATH"
)

const (
	// MaxBytes is the hard limit of a patch, whatever a policy says.
	MaxBytes = 16 << 20
	maxFiles = 10_000
	// maxUnpacked bounds the unpacked size of all binary content together.
	maxUnpacked = 64 << 20
)

// Status says what happened to one file.
type Status string

// Statuses.
const (
	Added    Status = "added"
	Modified Status = "modified"
	Deleted  Status = "deleted"
	Renamed  Status = "renamed"
	Copied   Status = "copied"
)

// File is one changed file.
type File struct {
	OldPath     string  `json:"old_path,omitempty"` // empty when added
	NewPath     string  `json:"new_path,omitempty"` // empty when deleted
	Status      Status  `json:"status"`
	OldMode     string  `json:"old_mode,omitempty"` // octal, "100644"; empty where the patch does not say
	NewMode     string  `json:"new_mode,omitempty"`
	ModeChanged bool    `json:"mode_changed,omitempty"`
	Binary      bool    `json:"binary,omitempty"`
	BinarySize  int64   `json:"binary_size,omitempty"` // size that the patch claims, in bytes
	Symlink     bool    `json:"symlink,omitempty"`     // is one afterwards, or was one before
	Submodule   bool    `json:"submodule,omitempty"`
	Added       int     `json:"added"` // lines
	Removed     int     `json:"removed"`
	Classes     []Class `json:"classes,omitempty"`
}

// Path is the path to show: the new one, or the old one of a deleted file.
func (f File) Path() string {
	if f.NewPath != "" {
		return f.NewPath
	}
	return f.OldPath
}

// Paths are all paths that the change touches: both of a rename.
func (f File) Paths() []string {
	switch {
	case f.OldPath == "" || f.OldPath == f.NewPath:
		return []string{f.NewPath}
	case f.NewPath == "":
		return []string{f.OldPath}
	default:
		return []string{f.OldPath, f.NewPath}
	}
}

// Is reports whether the file has the class.
func (f File) Is(c Class) bool {
	for _, x := range f.Classes {
		if x == c {
			return true
		}
	}
	return false
}

// Facts are what the server stores about a patch.
type Facts struct {
	Digest  string `json:"digest"`   // SHA-256 of the bytes, hex
	PatchID string `json:"patch_id"` // equal for equal changes at other line numbers
	Shape   string `json:"shape"`    // equal for alike changes elsewhere; only for grouping
	Bytes   int64  `json:"bytes"`
	Files   []File `json:"files"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// Empty reports whether the patch changes nothing.
func (f Facts) Empty() bool { return len(f.Files) == 0 }

// Lines is the number of added and removed lines.
func (f Facts) Lines() int { return f.Added + f.Removed }

// Summary is one line: "3 files, +10 −2".
func (f Facts) Summary() string {
	files := "files"
	if len(f.Files) == 1 {
		files = "file"
	}
	return fmt.Sprintf("%d %s, +%d −%d", len(f.Files), files, f.Added, f.Removed)
}

// Patch is a parsed patch. It is safe for concurrent reading.
type Patch struct {
	raw   []byte
	facts Facts
	files []*gitdiff.File
	ids   []string
}

// Facts returns what is known about the patch. Callers must not change the
// slices in it.
func (p *Patch) Facts() Facts { return p.facts }

// Bytes returns the bytes that were parsed. Callers must not change them.
func (p *Patch) Bytes() []byte { return p.raw }

// FileDigest is the digest of what the patch does to one file, counted from 0, in hexadecimal: equal where it does the same,
// wherever in the file. Empty where there is no such file.
func (p *Patch) FileDigest(i int) string {
	if i < 0 || i >= len(p.ids) {
		return ""
	}
	return hex.EncodeToString([]byte(p.ids[i]))
}

// Digest is the lower-case hex SHA-256 of the exact bytes of a patch.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Parse reads a patch of at most limit bytes (0 or less: MaxBytes). Faults:
// TooLarge with CodeTooLarge; Invalid with CodeUnreadable where the bytes are
// not plain git diff output, or CodeUnsafePath where a path or mode could do
// harm outside the change itself. No bytes at all are an empty patch.
func Parse(raw []byte, limit int64) (*Patch, error) {
	if limit <= 0 || limit > MaxBytes {
		limit = MaxBytes
	}
	if int64(len(raw)) > limit {
		return nil, fault.Newf(fault.TooLarge,
			"The patch was not accepted: it has %d bytes and the limit is %d. Ask for a smaller change or split the task.", len(raw), limit).WithCode(CodeTooLarge)
	}
	p := &Patch{raw: raw, facts: Facts{Digest: Digest(raw), Bytes: int64(len(raw)), Files: []File{}}}
	if len(raw) > 0 {
		sections, err := account(raw)
		if err != nil {
			return nil, unreadable(err)
		}
		files, _, err := gitdiff.Parse(bytes.NewReader(raw))
		if err != nil {
			return nil, unreadable(err)
		}
		if len(files) != len(sections) {
			return nil, unreadable(fmt.Errorf("%d sections, but %d files", len(sections), len(files)))
		}
		p.files = files
		if err := p.describe(sections); err != nil {
			return nil, err
		}
	}
	p.ids = fileIDs(p.files)
	p.facts.PatchID, p.facts.Shape = sumSorted(p.ids), shape(p.files)
	return p, nil
}

// describe fills the facts from parsed files and refuses what is unsafe.
func (p *Patch) describe(sections []section) error {
	unpacked := int64(maxUnpacked)
	for i, gf := range p.files {
		f, err := fileFacts(gf)
		if err != nil {
			return err
		}
		for _, frag := range []*gitdiff.BinaryFragment{gf.BinaryFragment, gf.ReverseBinaryFragment} {
			if err := unpack(frag, &unpacked); err != nil {
				return err
			}
		}
		if err := sections[i].agrees(f); err != nil {
			return unreadable(err)
		}
		p.facts.Files = append(p.facts.Files, f)
		p.facts.Added += f.Added
		p.facts.Removed += f.Removed
	}
	return checkTogether(p.facts.Files)
}

// unpack checks that binary content is what it says: git silently ends a
// patch at content that it cannot read, and would apply less than is shown.
func unpack(frag *gitdiff.BinaryFragment, left *int64) error {
	if frag == nil {
		return nil
	}
	if *left -= frag.Size; *left < 0 {
		return fault.Newf(fault.TooLarge, "The patch was not accepted: its binary files hold more than %d MiB.", maxUnpacked>>20).WithCode(CodeTooLarge)
	}
	if _, err := io.Copy(io.Discard, frag.Data()); err != nil {
		return unreadable(fmt.Errorf("binary content: %w", err))
	}
	return nil
}

func fileFacts(gf *gitdiff.File) (File, error) {
	f := File{OldPath: gf.OldName, NewPath: gf.NewName, Status: Modified, Binary: gf.IsBinary}
	switch {
	case gf.IsNew:
		f.Status, f.OldPath = Added, ""
	case gf.IsDelete:
		f.Status, f.NewPath = Deleted, ""
	case gf.IsRename:
		f.Status = Renamed
	case gf.IsCopy:
		f.Status = Copied
	}
	for _, path := range f.Paths() {
		if why := unsafePath(path); why != "" {
			return f, refused(path, why)
		}
	}
	if (f.Status == Renamed || f.Status == Copied) == (f.OldPath == f.NewPath) && f.Status != Added && f.Status != Deleted {
		return f, unreadable(fmt.Errorf("paths %q and %q do not fit status %s", f.OldPath, f.NewPath, f.Status))
	}
	if gf.OldMode != 0 {
		f.OldMode = fmt.Sprintf("%06o", uint32(gf.OldMode))
	}
	if gf.NewMode != 0 {
		f.NewMode = fmt.Sprintf("%06o", uint32(gf.NewMode))
	}
	if f.NewMode == "" && f.Status != Deleted {
		f.NewMode = f.OldMode // "index a..b 100644" says it once
	}
	for _, m := range []string{f.OldMode, f.NewMode} {
		switch m {
		case "", "100644", "100755":
		case "120000":
			f.Symlink = true
		case "160000":
			f.Submodule = true
		default:
			return f, refused(f.Path(), fmt.Sprintf("has the file mode %s", m))
		}
	}
	f.ModeChanged = f.OldMode != "" && f.NewMode != "" && f.OldMode != f.NewMode
	for _, t := range gf.TextFragments {
		f.Added += int(t.LinesAdded)
		f.Removed += int(t.LinesDeleted)
	}
	if gf.BinaryFragment != nil {
		f.BinarySize = gf.BinaryFragment.Size
	}
	f.Classes = classify(f)
	return f, nil
}

func unreadable(cause error) error {
	return fault.Wrap(fault.Invalid, cause,
		"The patch was not accepted: it is not plain git diff output, so nobody could say for sure what it changes.").WithCode(CodeUnreadable)
}

func refused(path, why string) error {
	return fault.Newf(fault.Invalid, "The patch was not accepted: the path %s %s.", shown(path), why).WithCode(CodeUnsafePath)
}

// shown makes an untrusted path fit for a sentence.
func shown(path string) string {
	if len(path) > 200 {
		path = strings.ToValidUTF8(path[:200], "") + "…"
	}
	return fmt.Sprintf("%q", path)
}
