package handlers

import (
	"strings"
	"testing"
)

// A person tells their logins apart by the browser's name; what a program calls itself is never repeated.
func TestBrowserWords(t *testing.T) {
	t.Parallel()
	const like = "Mozilla/5.0 (%) AppleWebKit/537.36 (KHTML, like Gecko) "
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0":                              "Firefox on Linux",
		strings.Replace(like, "%", "Windows NT 10.0; Win64; x64", 1) + "Chrome/142.0 Safari/537.36 Edg/142.0": "Edge on Windows",
		strings.Replace(like, "%", "Macintosh; Intel Mac OS X 10_15_7", 1) + "Version/18.5 Safari/605.1":      "Safari on macOS",
		strings.Replace(like, "%", "Linux; Android 16", 1) + "Chrome/142.0 Mobile Safari/537.36":              "Chrome on Android",
		strings.Replace(like, "%", "iPhone; CPU iPhone OS 18_5 like Mac OS X", 1) + "CriOS/142.0":             "Chrome on an iPhone",
		"":                          "Another program",
		"<script>alert(1)</script>": "Another program",
		"curl/8.0 Linux":            "Another program on Linux",
	} {
		if got := browserWords(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}
