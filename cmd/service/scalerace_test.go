//go:build race

package main

import "time"

// The race detector slows down the service and its clients, which share a few cores.
const (
	// hostileShare reduces the number of inputs: one in hostileShare is sent.
	hostileShare = 12
	// crowd is the number of concurrent slow clients.
	crowd = 3
	// aside is heap growth that does not depend on the number of readers, in MiB.
	aside = 64
	// answerWithin limits the answer to an input, servedWithin a concurrent call of another client,
	// and readWithin such a call while a crowd reads.
	answerWithin, servedWithin, readWithin = time.Minute, 40 * time.Second, 20 * time.Second
	// verboseBlocks is the number of blocks in an answer of a verbose upstream. The kernel buffers
	// some of them for a reader that does not read.
	verboseBlocks = 25
	// someJobs is the number of jobs while the service is killed or stopped.
	someJobs = 120
	// largestMessage is the max_payload of a NATS server, and largeBody the size of a larger body,
	// in bytes.
	largestMessage, largeBody = 1 << 20, 2 << 20
)

// tooSlow reports whether a slow embedded broker may cause a 503. Nothing is accepted then, and the
// caller may retry.
const tooSlow = true
