package jimeng

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomes is the outcome table of the protocol. The vendor's business codes
// count with status 200 too, where the code alone refuses.
var outcomes = slices.Concat(upstream.Outcomes{
	// The vendor's API gateway, in its own envelope. It is in front of the service,
	// and sends some of these with status 400.
	upstream.ByCode("InvalidAuthorization", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("SignatureDoesNotMatch", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidAccessKey", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidCredential", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidTimestamp", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("FlowLimitExceeded", upstream.RefusedForNow, upstream.ScopeKey),
}.WithSource("volc-sdk-golang, and tests of others"), upstream.Outcomes{
	// A gateway that cannot serve the protocol.
	upstream.ByCode(codeNoQueries, upstream.RefusedForGood, upstream.ScopeUpstream),
}.WithSource("new-api, read and measured"), upstream.VisualRows(200, 599), upstream.GatewayRows, upstream.StatusRows)
