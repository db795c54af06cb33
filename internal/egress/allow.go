package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Allow is what an administrator opened for one purpose besides public addresses at the ports 80 and 443. The zero value
// opens nothing.
type Allow struct {
	// setting is the variable that an administrator changes; refusals name it.
	setting string
	entries []entry
}

type entry struct {
	prefix netip.Prefix // the zero value: any public address
	ports  []uint16     // empty: every port
}

// usual are the ports of the web.
func usual() []uint16 { return []uint16{80, 443} }

// ParseAllow reads the entries of a setting. Each is an address or a network with an optional port, or a port alone:
// "10.1.0.0/16", "10.1.2.3:8443", "[fd00::/8]:8443", "127.0.0.1:*" (every port), ":8443" (public addresses). Without a
// port 80 and 443 are meant.
func ParseAllow(setting string, texts []string) (Allow, error) {
	a := Allow{setting: setting}
	for _, text := range texts {
		e, err := parseEntry(strings.TrimSpace(text))
		if err != nil {
			return Allow{}, fmt.Errorf("%s has %q: %w", setting, text, err)
		}
		a.entries = append(a.entries, e)
	}
	return a, nil
}

func parseEntry(text string) (entry, error) {
	host, port := text, ""
	switch at := strings.LastIndexByte(text, ':'); {
	case strings.HasPrefix(text, "["):
		inside, rest, ok := strings.Cut(text[1:], "]")
		if !ok || rest != "" && !strings.HasPrefix(rest, ":") {
			return entry{}, fmt.Errorf("want a network with an optional port, for example [fd00::/8]:8443")
		}
		host, port = inside, strings.TrimPrefix(rest, ":")
	case strings.Count(text, ":") == 1:
		host, port = text[:at], text[at+1:]
	}
	e := entry{ports: usual()}
	switch {
	case port == "*":
		e.ports = nil
	case port != "":
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return entry{}, fmt.Errorf("%q is no port", port)
		}
		e.ports = []uint16{uint16(n)}
	}
	if host == "" {
		if port == "" || port == "*" {
			return entry{}, fmt.Errorf("want an address, a network or a port")
		}
		return e, nil
	}
	prefix, err := netip.ParsePrefix(host)
	if err != nil {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			return entry{}, fmt.Errorf("want an address or a network such as 10.1.0.0/16, with an optional port; names are not taken, because they can change what they mean")
		}
		addr = addr.Unmap()
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return entry{}, fmt.Errorf("write an IPv4 network as one")
	}
	if prefix.Bits() == 0 {
		return entry{}, fmt.Errorf("that is every address; name the networks that are meant")
	}
	e.prefix = prefix.Masked()
	return e, nil
}

// RefusedError is a connection that was not made.
type RefusedError struct {
	// Purpose is what the call was for, for example "login provider".
	Purpose string
	// Address is where it led: host and port, or what was read as an address.
	Address string
	// Why is what is wrong with it.
	Why string
	// Setting is the variable that opens it; empty where none does.
	Setting string
}

// Error says which address, why, and the way on.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%s: no connection was made to %s: %s", e.Purpose, e.Address, e.Why)
	if e.Setting != "" {
		text += fmt.Sprintf("; where that is meant, an administrator names it in %s", e.Setting)
	}
	return text
}

// named says whether an entry opens exactly this address.
func (a Allow) named(to netip.AddrPort) bool {
	for _, e := range a.entries {
		if e.prefix.IsValid() && e.prefix.Contains(to.Addr()) && e.opens(to.Port()) {
			return true
		}
	}
	return false
}

func (e entry) opens(port uint16) bool {
	for _, p := range e.ports {
		if p == port {
			return true
		}
	}
	return len(e.ports) == 0
}

// Check answers a *RefusedError for an address that is closed. plain says that the call goes without TLS, which is only
// made to what is named: elsewhere anybody on the way could answer it.
func (a Allow) Check(purpose string, to netip.AddrPort, plain bool) error {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if a.named(to) {
		return nil
	}
	refused := &RefusedError{Purpose: purpose, Address: to.String(), Setting: a.setting}
	if what := Closed(to.Addr()); what != "" {
		refused.Why = "that is " + what
		return refused
	}
	if plain {
		refused.Why = "without TLS only addresses are called that are named"
		return refused
	}
	for _, p := range usual() {
		if to.Port() == p {
			return nil
		}
	}
	for _, e := range a.entries {
		if !e.prefix.IsValid() && e.opens(to.Port()) {
			return nil
		}
	}
	refused.Why = "the port is neither 80 nor 443"
	return refused
}
