package ui

import (
	"fmt"
	"time"
)

// Stamp is an absolute instant with its zone, to the minute: "29 Nov 2026, 14:02 UTC".
func Stamp(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04") + " UTC" }

// Second is an absolute instant with its zone, to the second: "29 Nov 2026, 14:02:09 UTC".
func Second(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") + " UTC" }

// Clock is the time of day to the second with its zone: "14:02:09 UTC".
func Clock(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// Machine is the datetime attribute of an instant.
func Machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Dur is a length of time in at most two units: "42 s", "3 min 5 s", "2 h 10 min", "4 d 3 h". Negative is shown as 0 s.
func Dur(d time.Duration) string {
	switch {
	case d < time.Second && d > 0:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return pair(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return pair(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	default:
		return pair(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

func pair(a int, au string, b int, bu string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, au)
	}
	return fmt.Sprintf("%d %s %d %s", a, au, b, bu)
}

// Ago is an age in one unit, for lists: "just now", "3 min ago", "2 h ago"; a future instant gives "in 3 min".
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + Rough(-d)
	}
	if d < 5*time.Second {
		return "just now"
	}
	return Rough(d) + " ago"
}

// Rough is a length of time in one unit, rounded down.
func Rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours())/24)
	}
}

// Count writes a number with its noun: Count(1, "file", "files") is "1 file".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes is a size for people: "512 B", "18 kB", "4.2 MB".
func Bytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
}
