package web

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// payload reads an event's decoded JSON by dotted path. It never fails: what is missing is empty, because a timeline
// must be able to show the events of older and newer versions.
type payload map[string]any

func (p payload) at(path string) any {
	var v any = map[string]any(p)
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// str returns the first non-empty text among the paths.
func (p payload) str(paths ...string) string {
	for _, path := range paths {
		switch v := p.at(path).(type) {
		case string:
			if v != "" {
				return v
			}
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		case json.Number:
			return v.String()
		case int:
			return strconv.Itoa(v)
		case int64:
			return strconv.FormatInt(v, 10)
		}
	}
	return ""
}

func (p payload) num(path string) int {
	switch v := p.at(path).(type) {
	case float64:
		return int(v)
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return 0
		}
		return int(n)
	case int:
		return v
	case int64:
		return int(v)
	}
	return 0
}

func (p payload) flag(path string) bool { b, ok := p.at(path).(bool); return ok && b }

// span reads a length of time, which Go writes as nanoseconds.
func (p payload) span(path string) time.Duration { return time.Duration(p.num(path)) }

func (p payload) list(path string) []string {
	var out []string
	switch v := p.at(path).(type) {
	case []any:
		for _, item := range v {
			switch s := item.(type) {
			case string:
				out = append(out, s)
			case map[string]any:
				if name := payload(s).str("name", "id"); name != "" {
					out = append(out, name)
				}
			}
		}
	case []string:
		out = v
	}
	return out
}

// quoted puts short untrusted text into a sentence; long text belongs into the detail.
func quoted(s string) string { return "“" + s + "”" }

// some lists at most three items of a list and counts the rest.
func some(items []string) string {
	const most = 3
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}
