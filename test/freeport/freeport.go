// Package freeport allocates local ports for servers that tests and tools start and restart at the
// same address.
//
// A server that starts only once can listen on port 0. A server that restarts must know its port in
// advance, and no other process may take the port while the server is down. A port chosen by the
// system is unsuitable. Once it is closed, the system may give it to the next server or to an
// outgoing connection.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports come from below the ephemeral ranges of Linux, macOS and Windows. Each process reserves
// whole blocks by listening on the first port of each block.
const (
	firstPort = 20000
	lastPort  = 32000 // exclusive
	blockSize = 200
)

// ErrNone means that every block is reserved.
var ErrNone = errors.New("no ports are free between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))

var process = allocator{search: firstPort}

// Ports returns n ports of 127.0.0.1 with no listener. Neither this process nor another user of
// this package gets them again while this process runs.
func Ports(n int) ([]int, error) { return process.ports(n) }

// Addrs returns n addresses such as 127.0.0.1:20001 with ports from [Ports].
func Addrs(n int) ([]string, error) {
	ports, err := Ports(n)
	addrs := make([]string, len(ports))
	for i, port := range ports {
		addrs[i] = address(port)
	}
	return addrs, err
}

// allocator keeps its blocks until the process ends, because ports are never returned.
type allocator struct {
	mu     sync.Mutex
	locks  []net.Listener
	next   int // next port to try
	end    int // of the current block, exclusive
	search int // first port of the next block to try
}

func (a *allocator) ports(n int) ([]int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]int, 0, n)
	for len(out) < n {
		if a.next == a.end {
			if err := a.takeBlock(); err != nil {
				return nil, fmt.Errorf("%d ports: %w", n, err)
			}
		}
		if isFree(a.next) {
			out = append(out, a.next)
		}
		a.next++
	}
	return out, nil
}

func (a *allocator) takeBlock() error {
	for a.search < lastPort {
		first := a.search
		a.search += blockSize
		lock, err := listen(first)
		if err != nil {
			continue // another process has reserved it
		}
		a.locks = append(a.locks, lock)
		a.next, a.end = first+1, first+blockSize
		return nil
	}
	return ErrNone
}

// isFree reports whether no server listens on port. It holds the fork lock, because a child forked
// during the check would keep the port open until it executes its program.
func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := listen(port)
	return err == nil && l.Close() == nil
}

func listen(port int) (net.Listener, error) { return net.Listen("tcp", address(port)) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
