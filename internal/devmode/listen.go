package devmode

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// DefaultAddr is where dev mode listens when nobody says otherwise and it is free.
const DefaultAddr = "127.0.0.1:8080"

// portsTried is how many ports above the default are tried before the system is asked for any.
const portsTried = 100

// listen follows the rules of D-27: an address that was named must be free; otherwise the one of last time, the
// default, the next free one above it, any.
func listen(ctx context.Context, named, remembered string) (net.Listener, error) {
	var config net.ListenConfig
	if named != "" {
		if err := loopbackOnly(named); err != nil {
			return nil, err
		}
		l, err := config.Listen(ctx, "tcp", named)
		if err != nil {
			return nil, fmt.Errorf("nothing was started: SIGNALBOX_ADDR is %s and that address cannot be had (%w); name another, or unset it to get the next free one", named, err)
		}
		return l, nil
	}
	tries := []string{DefaultAddr}
	if remembered != "" && loopbackOnly(remembered) == nil {
		tries = []string{remembered, DefaultAddr}
	}
	first := netip.MustParseAddrPort(DefaultAddr)
	for i := range portsTried {
		tries = append(tries, net.JoinHostPort(first.Addr().String(), strconv.Itoa(int(first.Port())+1+i)))
	}
	tries = append(tries, net.JoinHostPort(first.Addr().String(), "0"))
	var err error
	for _, address := range tries {
		var l net.Listener
		if l, err = config.Listen(ctx, "tcp", address); err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("nothing was started: no port of this machine could be had: %w", err)
}

// loopbackOnly refuses an address that others can reach: whoever reaches dev mode can be any of its people.
func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("SIGNALBOX_ADDR is %q, want host:port", address)
	}
	if host == "localhost" {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return fmt.Errorf("nothing was started: SIGNALBOX_ADDR is %s, and dev mode listens on this machine alone, because its sample people have no passwords; use 127.0.0.1 with a port (for a server that others use, see signalbox serve)", address)
	}
	return nil
}
