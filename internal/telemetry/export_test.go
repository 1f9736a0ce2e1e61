package telemetry

// IsTerminal is the terminal check, for the tests.
var IsTerminal = isTerminal
