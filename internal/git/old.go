package git

import (
	"bytes"
	"context"
	"strconv"
	"strings"
)

// OldLimits bound what OldTexts returns. A file over them is left out; that is no error.
type OldLimits struct {
	Files      int
	FileBytes  int64 // of one file
	TotalBytes int64 // of all of them
}

// OldTexts returns what the files that differ between two commits or trees were in the first one, in the form in which
// `git cat-file --batch` writes them: "<object> blob <size>", a newline, the content, a newline; in the order of their paths.
// Files that only one side has, links, submodules and binary files (a NUL byte at the beginning, as git decides) are not among
// them.
func (r *Repo) OldTexts(ctx context.Context, a, b string, limits OldLimits) ([]byte, error) {
	if err := checkObject(a, b); err != nil {
		return nil, err
	}
	raw, err := r.run(ctx, call{op: "diff-tree", args: []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-filter=M", a, b}})
	if err != nil {
		return nil, err
	}
	objects := changedBlobs(raw)
	if len(objects) == 0 {
		return nil, nil
	}
	sizes, err := r.run(ctx, call{op: "cat-file", args: []string{"cat-file", "--batch-check"}, stdin: names(objects)})
	if err != nil {
		return nil, err
	}
	var chosen []string
	left := limits.TotalBytes
	for line := range strings.Lines(string(sizes)) {
		object, size, ok := blobHeader(strings.TrimSuffix(line, "\n"))
		if ok && size <= limits.FileBytes && size <= left && len(chosen) < limits.Files {
			chosen, left = append(chosen, object), left-size
		}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	texts, err := r.run(ctx, call{op: "cat-file", args: []string{"cat-file", "--batch"}, stdin: names(chosen), max: limits.TotalBytes + int64(len(chosen))*100})
	if err != nil {
		return nil, err
	}
	return withoutBinary(texts), nil
}

// changedBlobs are the old objects of regular files in the output of diff-tree --raw -z, each once.
func changedBlobs(raw []byte) []string {
	var objects []string
	seen := map[string]bool{}
	for len(raw) > 0 {
		// One header and one path by turns. A path may look like a header, so it is skipped unread.
		var header []byte
		header, raw, _ = bytes.Cut(raw, []byte{0})
		_, raw, _ = bytes.Cut(raw, []byte{0})
		fields := strings.Fields(string(header))
		if len(fields) != 5 || !strings.HasPrefix(fields[0], ":100") || !strings.HasPrefix(fields[1], "100") || fields[2] == fields[3] || !IsObject(fields[2]) {
			continue // not a text that changes
		}
		if !seen[fields[2]] {
			seen[fields[2]], objects = true, append(objects, fields[2])
		}
	}
	return objects
}

func names(objects []string) *strings.Reader {
	return strings.NewReader(strings.Join(objects, "\n") + "\n")
}

func blobHeader(line string) (object string, size int64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[1] != "blob" {
		return "", 0, false
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	return fields[0], size, err == nil && size >= 0
}

// withoutBinary drops what git takes for binary from the output of cat-file --batch.
func withoutBinary(batch []byte) []byte {
	var kept []byte
	for rest := batch; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return kept
		}
		_, size, ok := blobHeader(string(rest[:end]))
		all := int64(end) + 1 + size + 1
		if !ok || all > int64(len(rest)) {
			return kept
		}
		content := rest[end+1 : all-1]
		if bytes.IndexByte(content[:min(len(content), 8000)], 0) < 0 {
			kept = append(kept, rest[:all]...)
		}
		rest = rest[all:]
	}
	return kept
}
