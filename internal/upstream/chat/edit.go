package chat

import (
	"strings"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// AskForStream and AskForUsage set one member of a request's body and leave every other byte
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

// BlamesUsage reports whether a request failed because of what AskForUsage added. sure is true if
// the error can mean nothing else. named is true if its param or message names it; a message may
// quote the prompt. maybe is true if a refusal of the request names no cause at all: many servers only say
// that a member is not permitted.
func BlamesUsage(err *upstream.Error) (sure, named, maybe bool) {
	names := func(text string) bool {
		return strings.Contains(text, "stream_options") || strings.Contains(text, "include_usage")
	}
	sure = names(err.Param) || strings.Contains(err.Message, "unexpected keyword argument 'stream_options'")
	named = sure || names(err.Message)
	maybe = err.Reported && (err.HTTPStatus == 400 || err.HTTPStatus == 422) && err.Scope == upstream.ScopeRequest && err.Param == "" &&
		!strings.HasPrefix(err.Code, "content_") && !strings.HasPrefix(err.Code, "context_")
	return sure, named, maybe
}
