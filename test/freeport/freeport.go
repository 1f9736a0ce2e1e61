// Package freeport gives ports of this machine to servers that tests and tools start,
// and start again, at the same address.
//
// A server that is started once listens on port 0 and says where. What is started again
// must know its port beforehand, and no process may take it while the server is down. A port
// that the system had chosen is no such port: once it is let go, the system gives it to
// the next server that asks for any, or to an outgoing connection.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below those that Linux, macOS and Windows choose by themselves.
// Each process has blocks of them for itself: who listens on the first port of a block
// has the others.
const (
	firstPort = 20000
	lastPort  = 32000 // not included
	blockSize = 200
)

// ErrNone is the error of a machine on which all blocks are taken.
var ErrNone = errors.New("no ports are free between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))

var process = allocator{search: firstPort}

// Ports are n ports of 127.0.0.1 on which no process listens, and that no other call
// returns, in this process or in another that asks this package.
func Ports(n int) ([]int, error) { return process.ports(n) }

// Addrs are n addresses like 127.0.0.1:20001, whose ports are those of [Ports].
func Addrs(n int) ([]string, error) {
	ports, err := Ports(n)
	addrs := make([]string, len(ports))
	for i, port := range ports {
		addrs[i] = address(port)
	}
	return addrs, err
}

// allocator has blocks until the process ends, since what it gave is never given back.
type allocator struct {
	mu     sync.Mutex
	locks  []net.Listener
	next   int // the next port to be given
	end    int // of the block
	search int // where the next block is looked for
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
			continue // another process has it
		}
		a.locks = append(a.locks, lock)
		a.next, a.end = first+1, first+blockSize
		return nil
	}
	return ErrNone
}

// isFree tells the ports that a server of this machine has had all along. No process is
// forked meanwhile: until it executes its program it would keep the port open.
func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := listen(port)
	return err == nil && l.Close() == nil
}

func listen(port int) (net.Listener, error) { return net.Listen("tcp", address(port)) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
