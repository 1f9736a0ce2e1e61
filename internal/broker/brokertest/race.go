//go:build race

package brokertest

import "time"

// raceDetector reports whether the tests are built with the race detector, which makes
// servers several times as slow.
const raceDetector = true

// Patience is how long a test waits for an event before it fails.
const Patience = 3 * time.Minute
