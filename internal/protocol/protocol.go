// Package protocol is the registry of the video protocols: one line for each
// folder under internal/upstream that holds one. It knows nothing of chats,
// which have one protocol only.
package protocol

import (
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
	"github.com/genbus/genbus/internal/upstream/primary"
	"github.com/genbus/genbus/internal/upstream/videos"
)

// all is every protocol; a new one is one line here. The first one is the
// default of a route, and the form that a typed request is read as.
var all = []upstream.Protocol{
	primary.Protocol(),
	videos.Protocol(),
	kling.Protocol(),
	jimeng.Protocol(),
}

// Default is the protocol of a route that names none, and the one that a typed
// request is read as.
func Default() upstream.Protocol { return all[0] }

// CreatePath is where clients create tasks of a protocol, for people, such as
// "POST /kling/v1/videos/text2video". segment is the first segment of a vendor's
// paths; empty for a protocol without one.
func CreatePath(p upstream.Protocol, segment string) string {
	method, path, _ := strings.Cut(p.CreatePath, " ")
	if segment != "" {
		path = "/" + segment + path
	}
	return method + " " + path
}

// All gives every protocol, the default one first.
func All() []upstream.Protocol { return slices.Clone(all) }

// Names gives the names of all protocols, the default one first.
func Names() []string {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// Find gives the protocol of a name.
func Find(name string) (upstream.Protocol, bool) {
	i := slices.IndexFunc(all, func(p upstream.Protocol) bool { return p.Name == name })
	if i < 0 {
		return upstream.Protocol{}, false
	}
	return all[i], true
}
