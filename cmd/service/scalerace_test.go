//go:build race

package main

import "time"

// The race detector makes the service several times as slow, and its clients with it:
// they share a few cores.
const (
	// hostileShare is the part of the inputs that is sent: one in so many.
	hostileShare = 12
	// crowd is how many slow clients come at once.
	crowd = 3
	// aside is how much the heap grows in addition to what so few readers hold, in MiB.
	aside = 64
	// answerWithin bounds an input's answer, servedWithin a call of another client
	// meanwhile, and readWithin one while a crowd reads.
	answerWithin, servedWithin, readWithin = time.Minute, 40 * time.Second, 20 * time.Second
	// verboseBlocks is how many blocks a verbose upstream answers with. The kernel keeps
	// some of them for a reader who does not read.
	verboseBlocks = 25
	// someJobs is how many jobs there are while the service is killed or stopped.
	someJobs = 120
	// largestMessage is what a NATS server takes, and largeBody a body beyond it, in
	// bytes.
	largestMessage, largeBody = 1 << 20, 2 << 20
)

// tooSlow reports whether an embedded broker may keep its service waiting for so long
// that it says 503. Nothing was accepted then, and the caller may retry.
const tooSlow = true
