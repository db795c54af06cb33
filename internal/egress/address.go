package egress

import (
	"net/netip"
)

// closedRange is a part of the address space that no call of ours has business in unless an administrator says so.
type closedRange struct {
	prefix netip.Prefix
	name   string
}

// closedRanges are the ranges that do not lead to a public server. The standard library's own questions (IsPrivate,
// IsLoopback, …) miss half of them. Outside of 2000::/3 there is no public IPv6 address, so those need no rows beyond a name.
func closedRanges() []closedRange {
	rows := [][2]string{
		{"0.0.0.0/8", "this machine"}, {"10.0.0.0/8", "a private network"}, {"100.64.0.0/10", "a carrier's or cloud's shared network"},
		{"127.0.0.0/8", "this machine"}, {"168.63.129.16/32", "a cloud's service of the host"},
		{"169.254.0.0/16", "the local link, where clouds keep their metadata service"}, {"172.16.0.0/12", "a private network"},
		{"192.0.0.0/24", "reserved for protocols"}, {"192.0.2.0/24", "reserved for documentation"}, {"192.88.99.0/24", "a relay from IPv6"},
		{"192.168.0.0/16", "a private network"}, {"198.18.0.0/15", "reserved for measurements"}, {"198.51.100.0/24", "reserved for documentation"},
		{"203.0.113.0/24", "reserved for documentation"}, {"224.0.0.0/4", "a group of machines"}, {"240.0.0.0/4", "reserved"},

		{"::/127", "this machine"}, {"::/96", "an IPv4 address in disguise"}, {"::ffff:0:0:0/96", "an IPv4 address in disguise"},
		{"64:ff9b::/96", "an IPv4 address in disguise"}, {"64:ff9b:1::/48", "an IPv4 address in disguise"}, {"100::/64", "reserved"},
		{"2001::/23", "a tunnel, or reserved for protocols"}, {"2001:db8::/32", "reserved for documentation"}, {"2002::/16", "an IPv4 address in disguise"},
		{"3fff::/20", "reserved for documentation"}, {"5f00::/16", "reserved for routing"}, {"fc00::/7", "a private network"}, {"fe80::/10", "the local link"},
		{"fec0::/10", "a private network"}, {"ff00::/8", "a group of machines"},
	}
	ranges := make([]closedRange, len(rows))
	for i, r := range rows {
		ranges[i] = closedRange{netip.MustParsePrefix(r[0]), r[1]}
	}
	return ranges
}

// Closed says what an address is that is not a public one, for example "a private network"; empty for a public address.
// An IPv4 address is the same in both of its spellings.
func Closed(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return "an address of one link"
	}
	for _, r := range closedRanges() {
		if r.prefix.Contains(addr) {
			return r.name
		}
	}
	if addr.Is6() && !netip.MustParsePrefix("2000::/3").Contains(addr) {
		return "not a public address"
	}
	return ""
}
