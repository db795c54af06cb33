package campaign

import (
	"slices"
	"strings"
	"time"
)

// Windows are the times in which targets are started, in one named zone. Without any, it is always time.
type Windows struct {
	// Zone is an IANA name; empty: UTC.
	Zone string `json:"zone,omitempty"`
	// Open are the windows of a week.
	Open []Window `json:"open,omitempty"`
}

// Window is a stretch of some days of the week, by the clock on the wall of its zone.
type Window struct {
	// Days are "mon" to "sun"; none: every day.
	Days []string `json:"days,omitempty"`
	// From and To are "09:00" and "17:30"; To is not part of it. From after To passes midnight.
	From string `json:"from"`
	To   string `json:"to"`
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// location is the zone of the windows.
func (w Windows) location() (*time.Location, error) {
	if w.Zone == "" {
		return time.UTC, nil
	}
	return time.LoadLocation(w.Zone)
}

// Opens reports whether it is time to start targets, and where it is not, when it is next: zero where never within a week.
func (w Windows) Opens(now time.Time) (open bool, next time.Time) {
	if len(w.Open) == 0 {
		return true, time.Time{}
	}
	zone, err := w.location()
	if err != nil {
		return false, time.Time{}
	}
	local := now.In(zone)
	if w.open(local) {
		return true, time.Time{}
	}
	// The next begin of any window: by the wall, so that a change of the clocks moves it as people expect.
	for day := range 9 {
		date := local.AddDate(0, 0, day)
		for _, one := range w.Open {
			from, _ := clock(one.From)
			begin := time.Date(date.Year(), date.Month(), date.Day(), from/60, from%60, 0, 0, zone)
			if begin.After(local) && one.on(begin.Weekday()) && (next.IsZero() || begin.Before(next)) {
				next = begin
			}
		}
		if !next.IsZero() {
			return false, next.UTC()
		}
	}
	return false, time.Time{}
}

func (w Windows) open(local time.Time) bool {
	minute := local.Hour()*60 + local.Minute()
	yesterday := local.AddDate(0, 0, -1).Weekday()
	return slices.ContainsFunc(w.Open, func(one Window) bool {
		from, _ := clock(one.From)
		to, _ := clock(one.To)
		if from < to {
			return one.on(local.Weekday()) && minute >= from && minute < to
		}
		return one.on(local.Weekday()) && minute >= from || one.on(yesterday) && minute < to
	})
}

func (w Window) on(day time.Weekday) bool {
	return len(w.Days) == 0 || slices.ContainsFunc(w.Days, func(d string) bool { return strings.EqualFold(d, weekdays[day]) })
}

// clock is the minute of a day of "09:30"; "24:00" is its end.
func clock(text string) (int, bool) {
	if text == "24:00" {
		return 24 * 60, true
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err == nil
}
