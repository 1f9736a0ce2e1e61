// Package proto holds the sources of the contract, so that the service can hand
// them out. What Go programs use is generated from them, in gen.
package proto

import "embed"

// Sources are the contract's .proto files, by the paths that they import each
// other with, such as "genbus/v1/video.proto".
//
//go:embed genbus/v1/*.proto
var Sources embed.FS
