package jimeng

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomes is the protocol's outcome table. The vendor's codes count even with status 200, where
// only the code shows that the call was refused.
var outcomes = slices.Concat(upstream.Outcomes{
	// The vendor's API gateway has its own envelope. The gateway is in front of the service and
	// sends some of these codes with status 400.
	upstream.ByCode("InvalidAuthorization", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("SignatureDoesNotMatch", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidAccessKey", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidCredential", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidTimestamp", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("FlowLimitExceeded", upstream.RefusedForNow, upstream.ScopeKey),
}.WithSource("volc-sdk-golang, and tests of others"), upstream.Outcomes{
	// A gateway that does not support queries of the protocol.
	upstream.ByCode(codeNoQueries, upstream.RefusedForGood, upstream.ScopeUpstream),
}.WithSource("new-api, read and measured"), upstream.VisualRows(200, 599), upstream.SharedRows())
