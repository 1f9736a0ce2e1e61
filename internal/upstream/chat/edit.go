package chat

import "github.com/genbus/genbus/internal/jsonscan"

// The functions in this file change one member of a request's body and leave every
// other byte as it was. The body must be valid JSON with unique names; what is no
// object is returned unchanged. They never write into the slice that they are given,
// and return it when there is nothing to change.

// AskForStream sets stream.
func AskForStream(body []byte) []byte {
	body, _ = jsonscan.Set(body, "stream", []byte("true"))
	return body
}

// AskForUsage sets stream_options.include_usage, and keeps the other options.
func AskForUsage(body []byte) []byte {
	options, ok := jsonscan.Set(jsonscan.Find(body, "stream_options"), "include_usage", []byte("true"))
	if !ok {
		options = []byte(`{"include_usage":true}`)
	}
	body, _ = jsonscan.Set(body, "stream_options", options)
	return body
}
