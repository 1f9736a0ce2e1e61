package content

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

// errPrivate is why the guard ends a connection before it is made.
var errPrivate = errors.New("the address is private")

// guard is called with the address that a host's name was resolved to, before
// the connection: what DNS says later makes no difference.
func guard(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(at.Addr()) {
		return errPrivate
	}
	return nil
}

// special are the IPv4 blocks that are not the public internet (IANA's registry
// of special-purpose addresses).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // the host of Azure's virtual machines, which answers them only
)

// IPv6 is the other way round: what is not in global unicast is not public, and
// neither are these blocks in it: protocol assignments with Teredo, and
// documentation.
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

// isPublic reports whether an address is on the public internet. Addresses that
// carry an IPv4 address are judged by it.
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
