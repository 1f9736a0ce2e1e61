package main

import (
	"context"
	"net"
)

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// freeAddr is an address on loopback that nothing listens on right now.
func freeAddr(ctx context.Context) (string, error) {
	l, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
