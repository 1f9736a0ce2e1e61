// Package registry lists the clients, bodies and surfaces of the video protocols, one entry for
// each protocol in package protocol.
package registry

import (
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
	"github.com/genbus/genbus/internal/upstream/primary"
	"github.com/genbus/genbus/internal/upstream/videos"
)

// all lists the protocols in the order of protocol.All.
var all = []upstream.Protocol{
	primary.Protocol(),
	videos.Protocol(),
	kling.Protocol(),
	jimeng.Protocol(),
}

// Default returns the protocol for typed requests and for routes that name no protocol.
func Default() upstream.Protocol { return all[0] }

// All returns every protocol, the default one first.
func All() []upstream.Protocol { return slices.Clone(all) }

// Find returns the protocol called name.
func Find(name string) (upstream.Protocol, bool) {
	i := slices.IndexFunc(all, func(p upstream.Protocol) bool { return p.Name == name })
	if i < 0 {
		return upstream.Protocol{}, false
	}
	return all[i], true
}

// CreatePath returns the method and path for creating tasks, in the form shown to people, such as
// "POST /kling/v1/videos/text2video". segment is the first segment of a vendor's own paths, or
// empty if the protocol has no such paths.
func CreatePath(p upstream.Protocol, segment string) string {
	method, path, _ := strings.Cut(p.CreatePath, " ")
	if segment != "" {
		path = "/" + segment + path
	}
	return method + " " + path
}
