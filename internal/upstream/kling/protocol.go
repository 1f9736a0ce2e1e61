package kling

import (
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream"
)

// Protocol returns the protocol's entry in the registry.
func Protocol() upstream.Protocol {
	return upstream.Protocol{
		Info:       protocol.Kling,
		CreatePath: "POST /v1/videos/text2video or image2video",
		New: func(ep *upstream.Endpoint, opts upstream.Options) upstream.VideoClient {
			return clientOf(newClient(ep, opts))
		},
		OwnIDs:   true,
		Sign:     NewJWT,
		Bodies:   bodies{},
		Outcomes: outcomes,
		Surface:  surface{},
	}
}

// The two kinds of tasks. Each is the last segment of its create path. It is also the ticket of its
// tasks, because a task is read below the path on which it was created.
const (
	textToVideo  = "text2video"
	imageToVideo = "image2video"
)

const videosPath = "/v1/videos/"
