package jimeng

import (
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream"
)

// Protocol returns the protocol's entry in the registry.
func Protocol() upstream.Protocol {
	return upstream.Protocol{
		Info: protocol.Jimeng, CreatePath: "POST " + submitPath,
		New:    func(ep *upstream.Endpoint, opts upstream.Options) upstream.VideoClient { return newClient(ep, opts) },
		Sign:   NewSigner,
		Bodies: bodies{}, Outcomes: outcomes, Surface: surface{},
	}
}
