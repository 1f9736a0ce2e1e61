package faultinject

import (
	"bytes"
	"context"
	"io"
	"time"
)

// end determines how an answer continues after its middle.
type end int

const (
	whole end = iota
	cut
	stall
	oversized
)

// plan controls how the bytes of an answer are sent.
type plan struct {
	wait time.Duration // before the first byte
	drip time.Duration // between pieces; 0 means no pauses
	end  end
	odd  bool    // send oddEvents after each event
	part float64 // position of the middle, from 0 to 1
}

// event returns the number of the event, starting at 1, after which the middle of a stream is.
func (p plan) event() int { return 1 + int(p.part*8) }

// of returns the position of the middle in n bytes. It is before the last byte.
func (p plan) of(n int) int { return int(p.part * float64(max(n-1, 0))) }

// oddEvents are no JSON objects, as some servers send to keep a stream alive.
const oddEvents = "data: ping\n\nevent: heartbeat\ndata: null\n\ndata:\n\n"

const dripPiece = 16

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

// pause waits for d. It returns an error if the client disconnects first.
func (o *outlet) pause(d time.Duration) error {
	if d > 0 && !Pause(o.ctx, d) {
		return errDisconnected
	}
	return nil
}

// oversizedLine is the length in bytes of an OversizedLine. It is more than a client should buffer.
const oversizedLine = 48 << 20

// oversize sends an oversized line. It is an event of a stream, or the same text inside another
// answer.
func (a *answer) oversize() {
	a.chunk([]byte("data: {\"x\":\""))
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for sent := 0; sent < oversizedLine && a.err == nil; sent += len(piece) {
		a.chunk(piece)
	}
	a.chunk([]byte("\"}\n\n"))
}
