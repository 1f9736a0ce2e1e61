//go:build !race

package main

import "time"

// See scalerace_test.go.
const (
	hostileShare = 1
	crowd        = 200
	aside        = 0

	answerWithin, servedWithin, readWithin = 20 * time.Second, 20 * time.Second, 4 * time.Second

	verboseBlocks = 50
	someJobs      = 300

	largestMessage, largeBody = 8 << 20, 10 << 20

	tooSlow = false
)
