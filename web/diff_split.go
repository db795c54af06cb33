package web

// splitRow is one row of a side-by-side diff; a side without a line is nil.
type splitRow struct{ old, new *DiffLine }

// splitRows puts removed lines beside the added ones that took their places, and unchanged lines beside themselves.
func splitRows(lines []DiffLine) []splitRow {
	var rows []splitRow
	for at := 0; at < len(lines); {
		if lines[at].Op == ' ' {
			rows = append(rows, splitRow{&lines[at], &lines[at]})
			at++
			continue
		}
		removed, added := at, at
		for added < len(lines) && lines[added].Op == '-' {
			added++
		}
		end := added
		for end < len(lines) && lines[end].Op == '+' {
			end++
		}
		rows = sideBySide(rows, lines[removed:added], lines[added:end])
		at = end
	}
	return rows
}

// sideBySide appends a place where lines changed: pairs stand beside each other, what is between pairs from its top on.
func sideBySide(rows []splitRow, removed, added []DiffLine) []splitRow {
	paired := func(lines []DiffLine) int {
		n := 0
		for n < len(lines) && lines[n].Pair == 0 {
			n++
		}
		return n
	}
	for len(removed)+len(added) > 0 {
		r, a := paired(removed), paired(added)
		if r == 0 && a == 0 { // a pair, or lines whose partners are not here
			r, a = min(1, len(removed)), min(1, len(added))
		}
		for i := range max(r, a) {
			var row splitRow
			if i < r {
				row.old = &removed[i]
			}
			if i < a {
				row.new = &added[i]
			}
			rows = append(rows, row)
		}
		removed, added = removed[r:], added[a:]
	}
	return rows
}
