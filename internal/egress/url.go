package egress

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL reads a web address once and rebuilds it from its parts, so that what was checked is what is called: another
// reader of the same text cannot find another host in it. Host names are letters, digits and dashes; addresses are in
// their usual form; there is no user, no fragment and no escape in the host.
func ParseURL(raw string) (*url.URL, error) {
	if raw == "" || len(raw) > 2000 {
		return nil, errors.New("the address is empty or too long")
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return nil, errors.New("the address holds characters that no address needs")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the address cannot be read")
	}
	return rebuild(u)
}

func rebuild(u *url.URL) (*url.URL, error) {
	if u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" {
		return nil, errors.New("the address is neither https nor http")
	}
	if u.User != nil || u.Fragment != "" {
		return nil, errors.New("the address holds a user or a fragment")
	}
	host, port := u.Hostname(), u.Port()
	if !Host(host) {
		return nil, errors.New("the host of the address is not in the usual form")
	}
	// What stands between host and port must be what they are rebuilt from, or another reader sees another host.
	rest := host
	if strings.Contains(host, ":") {
		rest = "[" + host + "]"
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port != strconv.FormatUint(n, 10) {
			return nil, errors.New("the port of the address is none")
		}
		rest = net.JoinHostPort(host, port)
	}
	if rest != u.Host {
		return nil, errors.New("the host of the address is not in the usual form")
	}
	return &url.URL{Scheme: u.Scheme, Host: rest, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}, nil
}

// Host says whether text is a host as it may stand in an address: a name of letters, digits and dashes, or an IP address in its
// usual form. Numbers that some readers take for an address (127.1, 0x7f000001) are neither.
func Host(text string) bool {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Zone() == "" && addr.String() == text
	}
	if text == "" || len(text) > 253 {
		return false
	}
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	// No public name ends in a number, and a reader that goes by inet_aton finds an address in it.
	last := strings.ToLower(labels[len(labels)-1])
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}
