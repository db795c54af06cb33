package egresstest

import (
	"fmt"
	"net/netip"
	"strings"
)

// ClosedAddresses are addresses of every kind that no call may lead to.
func ClosedAddresses() []string {
	return strings.Fields(`
		127.0.0.1 127.0.0.3 127.1.2.3 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 168.63.129.16
		169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.255
		198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
		:: ::1 ::2 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:1
		100::1 2001::1 2001:0:7f00:1:: 2001:10::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 3fff::1 5f00::1 fc00::1 fd00::1 fd00:ec2::254 fe80::1 febf::1
		fec0::1 ff02::1 ff0e::1 4000::1 200::1`)
}

// OpenAddresses are public ones, among them the neighbours of those that are closed.
func OpenAddresses() []string {
	return strings.Fields(`
		1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0
		172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
		2001:200:: 2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2a00:1450:4001::1 3ffe::1`)
}

// Address is text as it stands in an address of the web.
func Address(addr string, port uint16) string {
	if a, err := netip.ParseAddr(addr); err == nil && a.Is6() {
		addr = "[" + addr + "]"
	}
	return fmt.Sprintf("https://%s:%d", addr, port)
}

// Spellings are addresses that readers of addresses disagree about, or that lead inside by another spelling; %d is the port.
func Spellings() []string {
	return []string{
		"https://127.1:%d/", "https://127.0.1:%d/", "https://2130706433:%d/", "https://0x7f000001:%d/", "https://0x7f.0.0.1:%d/", "https://0177.0.0.1:%d/", "https://017700000001:%d/",
		"https://127.0.0.1.:%d/", "https://localhost.:%d/", "https://0:%d/", "https://0.0:%d/", "https://127.0.0.01:%d/", "https://127.0.0.0x1:%d/", "https://127.0.0.1%%00.example.org:%d/",
		"https://example.org@127.0.0.1:%d/", "https://user:word@127.0.0.1:%d/", "https://127.0.0.1\\@example.org:%d/", "https://example.org\\@127.0.0.1:%d/", "https://127.0.0.1#@example.org:%d/",
		"https://127.0.0.1%%23@example.org:%d/", "https://a_b.example.org:%d/", "https://exa mple.org:%d/", "https://127.0.0.1\t:%d/", "https://127.0.0.1\r\nHost: x:%d/", "https://[::1%%25lo]:%d/",
		"https://[::ffff:7f00:1]:%d/", "https://[0:0:0:0:0:0:0:1]:%d/", "https://[::1].example.org:%d/", "https://①②⑦.0.0.1:%d/", "https://127。0。0。1:%d/", "https://ⓛocalhost:%d/", "https://-a.example.org:%d/",
		"https://example..org:%d/", "https://.example.org:%d/", "//127.0.0.1:%d/", "https:127.0.0.1:%d/", "https:/127.0.0.1:%d/", "https:///127.0.0.1:%d/", "https://127.0.0.1:%d@example.org/",
		"https://127.0.0.1:0%d/", "https://127.0.0.1:+%d/", "gopher://127.0.0.1:%d/", "file://127.0.0.1:%d/etc/passwd", "ftp://127.0.0.1:%d/", "dict://127.0.0.1:%d/", "unix://127.0.0.1:%d/", "https+unix://127.0.0.1:%d/",
	}
}
