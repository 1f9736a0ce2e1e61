//go:build race

package brokertest

import "time"

// raceDetector reports whether the race detector is on. It makes servers several times slower.
const raceDetector = true

// Patience is how long a test waits for an event before it fails.
const Patience = 3 * time.Minute
