package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// TestWritesInTheProcessWaitForNoReader, keep their order, and end with the connection.
func TestWritesInTheProcessWaitForNoReader(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	c := newUnhurried(ours)
	var want []byte
	for i := range byte(10) {
		part := bytes.Repeat([]byte{i}, maxKept/4)
		want = append(want, part...)
		if n, err := c.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("something else is read: %v", err)
	}
	if _, err := c.Write(want); err != nil { // which is not read
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Write(want); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the end: %v", err)
	}
	if n, err := theirs.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes are read after the end: %v", n, err)
	}
}

// TestTheServerEndsAConnection: the writes of the client fail.
func TestTheServerEndsAConnection(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	c := newUnhurried(ours)
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
