package content

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

// errPrivate is the error of a connection refused by guard.
var errPrivate = errors.New("the address is private")

// guard checks the resolved address just before the connection is made, so that a later DNS answer
// cannot lead elsewhere.
func guard(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(at.Addr()) {
		return errPrivate
	}
	return nil
}

// special lists the IPv4 blocks outside the public internet (IANA's special-purpose registry).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's host, reachable only from its virtual machines
)

// For IPv6, only global unicast is public, except the blocks for protocol assignments (which
// include Teredo) and for documentation.
var (
	global        = netip.MustParsePrefix("2000::/3")
	specialGlobal = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// isPublic reports whether an address is on the public internet. An IPv6 address that embeds an
// IPv4 address is judged by the IPv4 address.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return !contains(special, a)
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return isPublic(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(a):
		return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
	default:
		return global.Contains(a) && !contains(specialGlobal, a)
	}
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
