package faultinject

import (
	"bytes"
	"context"
	"io"
	"time"
)

// end is how an answer goes on after its middle.
type end int

const (
	whole end = iota
	cut
	stall
	oversized
)

// plan is how the bytes of an answer leave.
type plan struct {
	wait time.Duration // before the first byte
	drip time.Duration // between two pieces; 0: at once
	end  end
	part float64 // where the middle is, from 0 to 1
}

// event is the event of a stream after which its middle is, from 1.
func (p plan) event() int { return 1 + int(p.part*8) }

// of is where the middle of n bytes is, before the last.
func (p plan) of(n int) int { return int(p.part * float64(max(n-1, 0))) }

// dripPiece is how many bytes of a dripping answer come at a time.
const dripPiece = 16

// outlet writes to the client, late and in pieces where it is told to.
type outlet struct {
	ctx        context.Context
	to         io.Writer
	wait, drip time.Duration
}

func (o *outlet) Write(p []byte) (int, error) {
	if err := o.pause(o.wait); err != nil {
		return 0, err
	}
	o.wait = 0
	if o.drip == 0 {
		return o.to.Write(p)
	}
	for at := 0; at < len(p); at += dripPiece {
		if _, err := o.to.Write(p[at:min(at+dripPiece, len(p))]); err != nil {
			return at, err
		}
		if err := o.pause(o.drip); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// pause waits for d, or fails when the client has left.
func (o *outlet) pause(d time.Duration) error {
	if d > 0 && !Pause(o.ctx, d) {
		return errGone
	}
	return nil
}

// oversizedLine is how long the line of an OversizedLine is, in bytes: more than
// any client should keep.
const oversizedLine = 48 << 20

// oversize sends an endless line: as an event of a stream, else wherever the
// answer is.
func (a *answer) oversize() {
	a.chunk([]byte("data: {\"x\":\""))
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for sent := 0; sent < oversizedLine && a.err == nil; sent += len(piece) {
		a.chunk(piece)
	}
	a.chunk([]byte("\"}\n\n"))
}
