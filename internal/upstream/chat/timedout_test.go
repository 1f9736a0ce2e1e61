package chat

import (
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// TestTimedOut lists answers of gateways that stopped waiting for a model, and errors that are
// similar.
func TestTimedOut(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  upstream.Error
		want bool
	}{
		"no first byte":               {upstream.Error{Code: CodeFirstByteTimeout, Written: true}, true},
		"silence":                     {upstream.Error{Code: CodeIdleTimeout, HTTPStatus: 200, Written: true}, true},
		"all the time":                {upstream.Error{Code: CodeTotalTimeout, Written: true}, true},
		"LiteLLM":                     {upstream.Error{Code: "408", HTTPStatus: 408, Reported: true, Written: true}, true},
		"nginx":                       {upstream.Error{HTTPStatus: 504, Written: true}, true},
		"Cloudflare":                  {upstream.Error{HTTPStatus: 524, Written: true}, true},
		"another genbus":              {upstream.Error{Code: "upstream_timeout", HTTPStatus: 504, Reported: true, Written: true}, true},
		"another genbus, for good":    {upstream.Error{Code: "upstream_timeout", Type: "server_error", HTTPStatus: 504, Reported: true, Written: true, Final: true}, true}, // X-Should-Retry: false
		"Anthropic":                   {upstream.Error{Type: "timeout_error", HTTPStatus: 504, Reported: true, Written: true}, true},
		"OpenRouter, in its stream":   {upstream.Error{Code: "504", HTTPStatus: 200, Reported: true, Written: true}, true},
		"Anthropic, in its stream":    {upstream.Error{Type: "timeout_error", HTTPStatus: 200, Reported: true, Written: true}, true},
		"Google, wrapped":             {upstream.Error{Code: "DEADLINE_EXCEEDED", HTTPStatus: 500, Reported: true, Written: true}, true},
		"never sent":                  {upstream.Error{Code: CodeFirstByteTimeout}, false},
		"no connection":               {upstream.Error{}, false},
		"Cloudflare, no connection":   {upstream.Error{HTTPStatus: 522, Written: true}, false},
		"a refusal":                   {upstream.Error{Code: "model_not_found", HTTPStatus: 504, Reported: true, Written: true, Final: true}, false},
		"a parameter called so":       {upstream.Error{Code: "invalid_timeout", HTTPStatus: 400, Reported: true, Written: true}, false},
		"the caller left":             {upstream.Error{Code: CodeCancelled, HTTPStatus: 200, Written: true}, false},
		"cut off":                     {upstream.Error{Code: CodeStreamTruncated, HTTPStatus: 200, Written: true}, false},
		"an error":                    {upstream.Error{Code: "server_error", HTTPStatus: 500, Reported: true, Written: true}, false},
		"overloaded":                  {upstream.Error{HTTPStatus: 503, Reported: true, Written: true}, false},
		"unreadable, with the word":   {upstream.Error{Code: CodeUnreadable, Type: "timeout", HTTPStatus: 200, Written: true}, false},
		"a rate limit that names one": {upstream.Error{Code: "rate_limit_timeout", HTTPStatus: 429, Reported: true, Written: true}, false},
	} {
		row.err.Op = op
		if got := TimedOut(&row.err); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if TimedOut(&upstream.Error{Op: upstream.OpPoll, Code: "timeout", HTTPStatus: 200, Reported: true, Written: true}) {
		t.Error("the end of a video is one")
	}
}
