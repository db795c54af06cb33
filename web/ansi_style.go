package web

import "strings"

// ansiStyle is what escape sequences have set. A colour is 0 for none, or 1 to 8 for black to white.
type ansiStyle struct {
	bold, dim, italic, underline, inverse bool
	fg, bg                                int
}

// colons part the members of a colour in the newer spelling, in which that of a colour space may be empty.
var colons = strings.NewReplacer("::", ";", ":", ";")

var ansiColours = []string{"", "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

func (s *ansiStyle) apply(params string) {
	codes := strings.Split(colons.Replace(params), ";")
	for i := 0; i < len(codes); i++ {
		code := small(codes[i])
		if code == 38 || code == 48 || code == 58 {
			colour, used := extended(codes[i+1:])
			i += used
			s.colour(code, colour)
			continue
		}
		s.set(code)
	}
}

func (s *ansiStyle) set(code int) {
	switch {
	case code == 0:
		*s = ansiStyle{}
	case code == 1:
		s.bold = true
	case code == 2:
		s.dim = true
	case code == 3:
		s.italic = true
	case code == 4:
		s.underline = true
	case code == 7:
		s.inverse = true
	case code == 22:
		s.bold, s.dim = false, false
	case code == 23:
		s.italic = false
	case code == 24:
		s.underline = false
	case code == 27:
		s.inverse = false
	case code >= 30 && code <= 37, code >= 90 && code <= 97:
		s.fg = code%10 + 1
	case code >= 40 && code <= 47, code >= 100 && code <= 107:
		s.bg = code%10 + 1
	case code == 39:
		s.fg = 0
	case code == 49:
		s.bg = 0
	}
}

func (s *ansiStyle) colour(code, colour int) {
	switch code {
	case 38:
		s.fg = colour
	case 48:
		s.bg = colour
	}
}

// extended reads a colour of 256 or of 16 million and answers the nearest of the page's own palette, whose contrast is known,
// and how many parameters it had.
func extended(codes []string) (colour, used int) {
	at := func(i int) int {
		if i < len(codes) {
			return min(max(small(codes[i]), 0), 255)
		}
		return 0
	}
	switch {
	case len(codes) > 0 && codes[0] == "5":
		return indexed(at(1)), 2
	case len(codes) > 0 && codes[0] == "2":
		return nearest(at(1), at(2), at(3)), 4
	}
	return 0, 0
}

// indexed is the colour of a number of the 256.
func indexed(n int) int {
	switch {
	case n < 16:
		return n%8 + 1
	case n < 232:
		level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v] }
		n -= 16
		return nearest(level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return nearest(grey, grey, grey)
}

// nearest keeps of a colour which of red, green and blue are strong in it; without one it is a grey.
func nearest(r, g, b int) int {
	high, low := max(r, g, b), min(r, g, b)
	if high-low < 40 {
		if high < 128 {
			return 1
		}
		return 8
	}
	half := (high + low) / 2
	colour := 1
	for i, v := range []int{r, g, b} {
		if v > half {
			colour += 1 << i
		}
	}
	return colour
}

func small(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 999 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// class names the style. On a coloured ground the text has the one colour that can be read there, whatever was asked for: a
// log cannot hide its text in its ground.
func (s ansiStyle) class() string {
	var parts []string
	for _, p := range []struct {
		on   bool
		name string
	}{{s.bold, "a-b"}, {s.dim, "a-d"}, {s.italic, "a-i"}, {s.underline, "a-u"}} {
		if p.on {
			parts = append(parts, p.name)
		}
	}
	ground, text := s.bg, s.fg
	if s.inverse {
		if ground = s.fg; ground == 0 {
			ground = 8
		}
	}
	switch {
	case ground > 0:
		parts = append(parts, "a-on", "a-on-"+ansiColours[ground])
	case text > 0:
		parts = append(parts, "a-"+ansiColours[text])
	}
	return strings.Join(parts, " ")
}
