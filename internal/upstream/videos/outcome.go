package videos

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomes is the protocol's outcome table. An answer without a code is matched by its type.
var outcomes = slices.Concat(upstream.Outcomes{
	// The request, which a gateway checks before it does anything.
	upstream.ByCode("missing_model", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("missing_prompt", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_size", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_seconds", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_json", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_multipart_form", upstream.RefusedForGood, upstream.ScopeRequest),
}.WithSource("new-api, read and measured"), upstream.Outcomes{
	// The upstream failed, whatever the status, and may have accepted the job.
	upstream.ByCode("server_error", upstream.Unknown, upstream.ScopeUpstream),
}.WithSource("OpenAI's error codes"), upstream.VisualRows(400, 599), upstream.MiniMaxRows, upstream.SharedRows())
