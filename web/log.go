package web

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox/web/ui"
)

// How the times of lines are shown; empty: not at all.
const (
	LogTimesUTC   = "utc"
	LogTimesLocal = "local" // the reader's own zone, which only the browser knows; without a script they stay UTC
)

// LogLine is one line as a program printed it.
type LogLine struct {
	No   int64
	Text string // raw; escape sequences are dealt with here
	At   time.Time
	Cut  bool // only its beginning
	Mark bool // it lies in the range that was asked for
	Gap  bool // lines before it are left out
}

// LogView is a window of one log. The zero value is a log in which nothing was printed.
type LogView struct {
	Base  string // address of the log's page
	Lines []LogLine
	// Ends counts the lines that have ended, Total also the one that has not; it is the last of Lines where Tail is set.
	Ends, Total, Bytes int64
	Tail               bool // the window reaches the end
	Live               bool // more may come
	Stopped            bool // the output limit was reached, and the rest not kept
	Short              bool // long lines end the window early
	Began, Last        time.Time
	Note               string

	// What was asked for: a range of lines, a search, and how it is shown.
	At, To int64
	Query  string
	Times  string
	Wrap   bool
	Find   *LogFind
}

// LogFind is the answer to a search. In a list of hits Lines are these with what stands around them; else it says where
// the hits before and after the window's line are.
type LogFind struct {
	Total       int
	List        bool
	First, Last int   // the hits that are listed, from 1
	Before      int   // hits up to the line that is looked at
	Prev, Next  int64 // lines of the hits around it, or numbers of hits in a list; 0: none
	Upto        int64 // lines that were searched
	Whole       bool
}

// LogPageData is the page of one log.
type LogPageData struct {
	Shell
	RunID, Title string
	Name         string
	Attempt      int
	Step         *StepView // nil: what a phase printed
	Elsewhere    *Link     // where else its output may stand
	Log          LogView
}

// LogEntry is one log in the list of a run's logs.
type LogEntry struct {
	Name, Href string
	Attempt    int
	Status     *ui.Status // of its step, nil for a phase
	Live       bool
	Lines      int64
	Bytes      int64
	Began      time.Time
	Last       time.Time
}

// LogsPageData is the list of a run's logs.
type LogsPageData struct {
	Shell
	RunID, Title string
	Logs         []LogEntry
	Live         bool // the run goes on
	More         bool // older ones are not listed
}

// LogLiveData is one message of a log's event stream: lines that have ended since the client's cursor, the line that has
// not, and where the log stands.
type LogLiveData struct {
	Page   LogPageData
	Lines  []LogLine
	Open   *LogLine
	Anew   bool // Lines replace what is shown: too much came at once
	Before int64
}

// first and last number of the shown lines.
func (v LogView) first() int64 {
	if len(v.Lines) == 0 {
		return 0
	}
	return v.Lines[0].No
}

func (v LogView) last() int64 {
	if len(v.Lines) == 0 {
		return 0
	}
	return v.Lines[len(v.Lines)-1].No
}

// ended and open part the window at the line that has not ended, which a live page writes anew.
func (v LogView) ended() []LogLine {
	if n := len(v.Lines); n > 0 && v.Tail && v.Lines[n-1].No > v.Ends && !v.listed() {
		return v.Lines[:n-1]
	}
	return v.Lines
}

func (v LogView) open() *LogLine {
	if n := len(v.ended()); n < len(v.Lines) {
		return &v.Lines[n]
	}
	return nil
}

func (v LogView) listed() bool { return v.Find != nil && v.Find.List }

// to is the address of the same log with other members; empty values leave a member out.
func (v LogView) to(fragment string, pairs ...string) string {
	q := url.Values{}
	set := func(name, value string) {
		q.Del(name)
		if value != "" && value != "0" {
			q.Set(name, value)
		}
	}
	set("q", v.Query)
	set("t", v.Times)
	set("wrap", yesNo(v.Wrap, "1", ""))
	for i := 0; i+1 < len(pairs); i += 2 {
		set(pairs[i], pairs[i+1])
	}
	u := v.Base
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	if fragment != "" {
		u += "#" + fragment
	}
	return u
}

// lineURL is the permalink of a line: the server shows what stands around it, and the browser marks it.
func (v LogView) lineURL(n int64) string {
	no := strconv.FormatInt(n, 10)
	return v.to("L"+no, "at", no)
}

func (v LogView) fromURL(n int64) string {
	return v.to("log", "from", strconv.FormatInt(max(n, 1), 10))
}

// atURL keeps the range that is looked at.
func (v LogView) same(pairs ...string) string {
	at := ""
	if v.At > 0 {
		at = v.rangeText()
	}
	return v.to("log", append([]string{"at", at}, pairs...)...)
}

func (v LogView) rangeText() string {
	if v.At == 0 {
		return ""
	}
	if v.To > v.At {
		return fmt.Sprintf("%d-%d", v.At, v.To)
	}
	return strconv.FormatInt(v.At, 10)
}

func (v LogView) stream() string {
	if !v.Live || !v.Tail || v.listed() {
		return ""
	}
	q := url.Values{"after": {strconv.FormatInt(v.Ends, 10)}}
	if v.Times != "" {
		q.Set("t", v.Times)
	}
	return v.Base + "/stream?" + q.Encode()
}

// number writes a count in groups of three: 1,234.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func linesWord(n int64) string {
	if n == 1 {
		return "1 line"
	}
	return number(n) + " lines"
}

var percent = regexp.MustCompile(`(?:^|[^\d.])(\d{1,3})(?:\.\d+)? ?%`)

// percentOf is the last percentage that a line speaks of; false where it speaks of none.
func percentOf(line string) (int, bool) {
	all := percent.FindAllStringSubmatch(PlainLine(line), -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	return n, err == nil && n <= 100
}

// progress is what the newest line of a log that goes on says about how far it is.
func (v LogView) progress() (int, bool) {
	if !v.Live || len(v.Lines) == 0 || v.listed() {
		return 0, false
	}
	return percentOf(v.Lines[len(v.Lines)-1].Text)
}

// overwritten parts a line at its carriage returns: what a terminal would show last, and what it had shown before. Up to two
// states stand in the line itself.
func overwritten(text string) (before []string, last string) {
	all := strings.Split(strings.TrimRight(text, "\r"), "\r")
	if len(all) < 3 {
		return nil, text
	}
	return all[:len(all)-1], all[len(all)-1]
}

// repeatsFold is from how many equal lines after a first one on these are folded.
const repeatsFold = 3

// LogBlock is a line, or lines that are folded under words.
type LogBlock struct {
	Line  LogLine
	Words string // non-empty: Lines are folded under these words
	Lines []LogLine
	Open  bool
}

// FoldLog folds equal lines behind the first of them, and the groups that programs mark for build servers. What was
// searched or asked for is open.
func FoldLog(lines []LogLine) []LogBlock {
	var blocks []LogBlock
	for i := 0; i < len(lines); {
		if name, ok := groupBegins(lines[i].Text); ok {
			n := groupLength(lines[i:])
			blocks = append(blocks, LogBlock{Words: fmt.Sprintf("%s (%s)", name, linesWord(int64(n))), Lines: lines[i : i+n], Open: anyMarked(lines[i:i+n]) || i+n == len(lines)})
			i += n
			continue
		}
		blocks = append(blocks, LogBlock{Line: lines[i]})
		n := 0
		for i+1+n < len(lines) && lines[i+1+n].Text == lines[i].Text && !lines[i+1+n].Gap {
			n++
		}
		if i++; n >= repeatsFold {
			blocks = append(blocks, LogBlock{Words: fmt.Sprintf("The line above %s more times", number(int64(n))), Lines: lines[i : i+n], Open: anyMarked(lines[i : i+n])})
			i += n
		}
	}
	return blocks
}

// fold leaves a list of hits as it is: what was searched for is not hidden.
func (v LogView) fold(lines []LogLine) []LogBlock {
	if !v.listed() {
		return FoldLog(lines)
	}
	blocks := make([]LogBlock, 0, len(lines))
	for _, l := range lines {
		blocks = append(blocks, LogBlock{Line: l})
	}
	return blocks
}

func anyMarked(lines []LogLine) bool {
	for _, l := range lines {
		if l.Mark {
			return true
		}
	}
	return false
}

// groupBegins knows the marks that many tools print when they believe to be on a build server.
func groupBegins(text string) (name string, ok bool) {
	for _, mark := range []string{"::group::", "##[group]"} {
		if rest, found := strings.CutPrefix(text, mark); found {
			if name = strings.TrimSpace(PlainLine(rest)); name == "" {
				name = "Group"
			}
			return cutText(name, 200), true
		}
	}
	return "", false
}

// groupLength counts the lines of the group that begins with the first one; at most up to the next group.
func groupLength(lines []LogLine) int {
	for i, l := range lines[1:] {
		if strings.HasPrefix(l.Text, "::endgroup::") || strings.HasPrefix(l.Text, "##[endgroup]") {
			return i + 2
		}
		if _, ok := groupBegins(l.Text); ok || l.Gap {
			return i + 1
		}
	}
	return len(lines)
}

// LogWindow is how many lines a page shows at once, LogMost up to how many a whole log may have to be shown at once.
const (
	LogWindow = 500
	LogMost   = 2000
)

func logTitle(d LogPageData) string {
	t := d.Name + " · " + d.Title
	if d.Step != nil {
		t = ui.StepStatus(d.Step.State).Word + " · " + t
	}
	return t
}

// foundWords counts hits; where not all was searched, it says how far.
func foundWords(v LogView) string {
	f := v.Find
	hits := number(int64(f.Total)) + " lines hold"
	if f.Total == 1 {
		hits = "1 line holds"
	}
	words := fmt.Sprintf("%s “%s”", hits, v.Query)
	if f.Total == 0 {
		words = fmt.Sprintf("No line holds “%s”", v.Query)
	}
	switch {
	case f.List && f.Total > f.Last-f.First+1:
		words += fmt.Sprintf("; hits %s to %s are shown", number(int64(f.First)), number(int64(f.Last)))
	case !f.List && f.Total > 0:
		words += fmt.Sprintf("; %s of them up to this place", number(int64(f.Before)))
	}
	if !f.Whole {
		words += fmt.Sprintf(". Only the first %s were searched; the download has all", linesWord(f.Upto))
	}
	return words + "."
}
