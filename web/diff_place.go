package web

import "strconv"

// DiffPlace is the page that a patch is shown on: where its other views lead, and where its files and the lines around its hunks
// are loaded from. The zero value is a page that has none of them.
type DiffPlace struct {
	page  string // its address
	files bool   // each file has a page of its own
}

// GatePlace is the page of a gate.
func GatePlace(id string) DiffPlace { return DiffPlace{page: GateURL(id), files: true} }

// PullPlace is the page of a pull request of the local forge.
func PullPlace(id string) DiffPlace { return DiffPlace{page: PullURL(id)} }

func (p DiffPlace) known() bool { return p.page != "" }

// DiffURL is the page with its patch shown as chosen.
func (p DiffPlace) DiffURL(c DiffChoice) string { return p.page + c.query() + "#diff" }

// FileURL is the page of the patch's nth file.
func (p DiffPlace) FileURL(n int, c DiffChoice) string { return p.file(n) + c.query() }

// fragmentURL is the same file as a fragment for the page of the patch.
func (p DiffPlace) fragmentURL(n int, c DiffChoice) string { return "/f" + p.FileURL(n, c) }

// viewedURL takes that somebody has read the nth file.
func (p DiffPlace) viewedURL(n int, c DiffChoice) string { return p.file(n) + "/viewed" + c.query() }

// linesURL is where lines of a file are read, those of the range and not yet named ones offered.
func (p DiffPlace) linesURL(r LineRange, c DiffChoice) string {
	q := c.fields()
	q.Set("from", strconv.Itoa(r.From))
	q.Set("to", strconv.Itoa(r.To))
	return "/f" + p.file(r.File) + "/lines?" + q.Encode()
}

func (p DiffPlace) file(n int) string { return p.page + "/files/" + strconv.Itoa(n) }
