// Package telemetry provides logs, metrics, traces and health. The program builds each part once
// and passes it on.
package telemetry
