//go:build !race

package brokertest

import "time"

const raceDetector = false

// Patience is how long a test waits for an event before it fails.
const Patience = time.Minute
