// Package proto embeds the sources of the contract, so that the service can serve them. The Go code
// generated from them is in gen.
package proto

import "embed"

// Sources holds the contract's .proto files under their import paths, such as
// "genbus/v1/video.proto".
//
//go:embed genbus/v1/*.proto
var Sources embed.FS
