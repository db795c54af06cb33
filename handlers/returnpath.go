package handlers

import (
	"net/url"
	"strings"
)

// returnPath makes a path of this server out of what somebody asked to come back to; anything else is the home page.
// It refuses everything that any browser could read as another host (O13).
func returnPath(raw string) string {
	const home = "/"
	if len(raw) > 2000 || !strings.HasPrefix(raw, "/") || strings.ContainsAny(raw, "\\") {
		return home
	}
	if strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return home
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return home
	}
	// The decoded path must be as harmless as the written one.
	for _, p := range []string{raw, u.Path} {
		if strings.HasPrefix(p, "//") || strings.ContainsAny(p, "\\") || strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return home
		}
	}
	if strings.HasPrefix(u.Path, "/login") || strings.HasPrefix(u.Path, "/auth/") || strings.HasPrefix(u.Path, "/logout") {
		return home
	}
	return u.RequestURI()
}
