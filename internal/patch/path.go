package patch

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unsafePath says in words why a path must not be in a patch, or nothing.
// The rules are stricter than git's: file systems that fold case, ignore
// characters or know other separators must be safe as well.
func unsafePath(path string) string {
	switch {
	case path == "":
		return "is empty"
	case len(path) > 4096:
		return "is longer than 4096 bytes"
	case !utf8.ValidString(path):
		return "is not valid UTF-8"
	case strings.HasPrefix(path, "/"):
		return "is absolute"
	case strings.ContainsAny(path, "\\\""):
		return "holds a backslash or a quotation mark"
	}
	for _, r := range path {
		if unicode.IsControl(r) || isHidden(r) || r == utf8.RuneError || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return "holds control or invisible characters"
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "":
			return "holds an empty part"
		case part == "." || part == "..":
			return "leaves or repeats its folder"
		case len(part) > 255:
			return "has a part longer than 255 bytes"
		case isDotGit(part):
			return "reaches into git's own folder"
		}
	}
	return ""
}

// isDotGit reports names that some file system takes for ".git": another
// case, trailing dots and spaces, NTFS streams and short names.
func isDotGit(part string) bool {
	p, _, _ := strings.Cut(strings.ToLower(part), ":")
	p = strings.TrimRight(p, ". ")
	return p == ".git" || strings.HasPrefix(p, "git~")
}

// checkTogether refuses paths that are safe alone and not together: one name
// twice, names that differ only in case, a file that is another's folder.
func checkTogether(files []File) error {
	after, gone := map[string]string{}, map[string]bool{}
	for _, f := range files {
		if f.Status == Deleted {
			if gone[f.OldPath] {
				return refused(f.OldPath, "is deleted twice")
			}
			gone[f.OldPath] = true
			continue
		}
		key := strings.ToLower(f.NewPath)
		if first, twice := after[key]; twice {
			if first == f.NewPath {
				return refused(f.NewPath, "is changed twice")
			}
			return refused(f.NewPath, fmt.Sprintf("differs only in case from %s", shown(first)))
		}
		after[key] = f.NewPath
	}
	for key, path := range after {
		for i := strings.IndexByte(key, '/'); i >= 0; {
			if _, ok := after[key[:i]]; ok {
				return refused(path, "lies below a file of the same patch")
			}
			j := strings.IndexByte(key[i+1:], '/')
			if j < 0 {
				break
			}
			i += 1 + j
		}
	}
	return nil
}
