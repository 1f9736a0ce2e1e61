package freeport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// asksForPorts names the environment variable that makes this test binary request ports, print them
// and keep them until its input ends.
const asksForPorts = "GENBUS_TEST_ASKS_FOR_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(asksForPorts) == "" {
		os.Exit(m.Run())
	}
	addrs, err := Addrs(blockSize)
	if err == nil {
		_, err = fmt.Println(addrs)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		panic(err)
	}
}

// ask starts a process that keeps ports until the test ends, and returns their addresses.
func ask(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asksForPorts+"=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(strings.Trim(line, "[]\n"))
}

// newAllocator returns an allocator whose blocks are freed when the test ends.
func newAllocator(t *testing.T, search int) *allocator {
	a := &allocator{search: search}
	t.Cleanup(func() {
		for _, lock := range a.locks {
			if err := lock.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return a
}

func TestNoPortIsGivenTwice(t *testing.T) {
	t.Parallel()
	own, err := newAllocator(t, firstPort).ports(blockSize) // more than one block has
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(ask(t), ask(t))
	for _, port := range own {
		all = append(all, address(port))
	}
	if len(all) != 3*blockSize {
		t.Fatalf("%d addresses, want %d", len(all), 3*blockSize)
	}
	slices.Sort(all)
	if different := slices.Compact(slices.Clone(all)); len(different) != len(all) {
		t.Errorf("%d of %d addresses are different", len(different), len(all))
	}
}

func TestPortsInUseAreLeftOut(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, firstPort)
	before, err := a.ports(1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen(before[0] + 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	after, err := a.ports(3)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(after, before[0]+1) {
		t.Errorf("%d is given, and somebody listens there", before[0]+1)
	}
}

func TestAllBlocksAreTaken(t *testing.T) {
	t.Parallel()
	if _, err := newAllocator(t, lastPort-blockSize).ports(2 * blockSize); !errors.Is(err, ErrNone) {
		t.Errorf("error %v, want %v", err, ErrNone)
	}
}

// TestAddressesCanBeListenedOn proves that net.Listen accepts each address and keeps it unchanged.
func TestAddressesCanBeListenedOn(t *testing.T) {
	t.Parallel()
	addrs, err := Addrs(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().String() != addr {
			t.Errorf("%s, asked for %s", l.Addr(), addr)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
