// Package telemetry is how the service is observed: logs, metrics, traces and
// health. It is not a set of globals: every part is built once in main and
// handed to those that use it, and nothing here knows what a job does.
package telemetry
