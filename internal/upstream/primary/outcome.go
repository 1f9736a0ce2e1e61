package primary

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomes is the protocol's outcome table. Gateways speak this protocol and pass on the visual
// vendor's codes; the protocol itself defines none.
var outcomes = slices.Concat(upstream.VisualRows(400, 599), upstream.MiniMaxRows, upstream.SharedRows())
