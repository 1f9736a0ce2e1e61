//go:build race

package brokertest

// raceDetector reports whether the tests are built with the race detector, which makes
// servers several times as slow.
const raceDetector = true
