package primary

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomes is the outcome table of the protocol, which has no codes of its own:
// it is what gateways speak, and they pass the visual vendor's codes on.
var outcomes = slices.Concat(upstream.VisualRows(400, 599), upstream.GatewayRows, upstream.StatusRows)
