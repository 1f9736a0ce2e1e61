package faulttest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Fixed ports are taken from below those that Linux and macOS give to outgoing
// connections: one of these could take the port of a node that is down.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePorts finds n ports that nobody listens on. They are held until all are
// found, so that none is found twice.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue // somebody has it
		}
		defer func() { _ = l.Close() }() // nothing came in
		ports = append(ports, port)
	}
	return nil, errors.New("no free ports between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))
}

// FreeAddrs are n addresses of this machine that nobody listens on, for processes
// that are started again at the same ones.
func FreeAddrs(n int) ([]string, error) {
	ports, err := freePorts(n)
	addrs := make([]string, len(ports))
	for i, port := range ports {
		addrs[i] = local(port)
	}
	return addrs, err
}

// local is the address of a port of this machine.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
