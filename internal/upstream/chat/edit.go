package chat

import "github.com/genbus/genbus/internal/body"

// The functions in this file set one member of a request's body and leave every other byte
// unchanged. They never write to the given text. A stored body that cannot be edited keeps its
// text.

// AskForStream sets stream to true.
func AskForStream(d body.Document) body.Document { return d.With("stream", []byte("true")) }

// AskForUsage sets stream_options.include_usage to true and keeps the other options.
func AskForUsage(d body.Document) body.Document {
	options := body.Trusted(d.Member("stream_options")).With("include_usage", []byte("true"))
	if options.Err() != nil {
		options = body.Trusted([]byte(`{"include_usage":true}`))
	}
	return d.With("stream_options", options.Bytes())
}
