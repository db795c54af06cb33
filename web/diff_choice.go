package web

import (
	"net/url"
	"strconv"
)

// DiffChoiceOf reads the choice from an address. What it does not know, it leaves at the default.
func DiffChoiceOf(q url.Values) DiffChoice {
	since, err := strconv.Atoi(q.Get("since"))
	if err != nil || since < 1 {
		since = 0
	}
	return DiffChoice{Split: q.Get("view") == "split", IgnoreSpace: q.Get("w") == "1", Since: since, Files: fileFilterOf(q), Lines: joined(LineRanges(q.Get("lines")).all())}
}

// query is the choice as it stands in an address, with its question mark; empty for the default.
func (c DiffChoice) query() string {
	q := c.fields()
	c.Files.set(q)
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// fields are the choice without the filter, as a form keeps it.
func (c DiffChoice) fields() url.Values {
	q := url.Values{}
	if c.Split {
		q.Set("view", "split")
	}
	if c.IgnoreSpace {
		q.Set("w", "1")
	}
	if c.Since > 0 {
		q.Set("since", strconv.Itoa(c.Since))
	}
	if c.Lines != "" {
		q.Set("lines", string(c.Lines))
	}
	return q
}

// switches are the links to the other views of a patch.
func (o DiffOptions) switches() []Link {
	if !o.Place.known() {
		return nil
	}
	return o.View.others(o.Place.DiffURL)
}

// FileSwitches are the links to the other views of the patch's nth file.
func (o DiffOptions) FileSwitches(n int) []Link {
	return o.View.others(func(c DiffChoice) string { return o.Place.FileURL(n, c) })
}

func (c DiffChoice) others(address func(DiffChoice) string) []Link {
	side, space := c, c
	side.Split, space.IgnoreSpace = !c.Split, !c.IgnoreSpace
	links := []Link{{Text: "Show old and new side by side", Href: address(side)}, {Text: "Leave out changes of white space", Href: address(space)}}
	if c.Split {
		links[0].Text = "Show one below the other"
	}
	if c.IgnoreSpace {
		links[1].Text = "Show changes of white space"
	}
	return links
}

// thousands writes a number with a comma between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func lineCount(n int) string {
	if n == 1 {
		return "1 line"
	}
	return thousands(n) + " lines"
}

// noEOLWords says on which side the file ends without a newline.
func noEOLWords(r splitRow) string {
	switch {
	case r.old != nil && r.old.NoEOL && r.new != nil && r.new.NoEOL:
		return "No newline at the end of the file"
	case r.old != nil && r.old.NoEOL:
		return "Old: no newline at the end of the file"
	case r.new != nil && r.new.NoEOL:
		return "New: no newline at the end of the file"
	default:
		return ""
	}
}

// spaceBanner counts what ignoring white space leaves out.
func spaceBanner(n int) string {
	if n == 0 {
		return "No line differs only in white space."
	}
	if n == 1 {
		return "1 line that differs only in white space is shown as unchanged."
	}
	return thousands(n) + " lines that differ only in white space are shown as unchanged."
}
