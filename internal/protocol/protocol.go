// Package protocol lists the video protocols by name and the features that each supports. It is
// plain data, shared by the configuration and the clients in internal/upstream. Chats have a single
// protocol, which is not listed. The package also knows which base URLs have a version.
package protocol

import "slices"

// Info describes one video protocol.
type Info struct {
	// Name identifies the protocol in the configuration, in requests and in tasks, such as
	// "primary".
	Name string
	// Segment is the default first segment of a vendor's own paths, such as "kling". It is empty if
	// the protocol has no such paths.
	Segment string
	// Signed reports whether the vendor accepts requests signed with a key pair.
	Signed bool
	// Gateway reports whether routes may set the option gateway.
	Gateway bool
	// InputReference reports whether routes may set the option input_reference.
	InputReference bool
	// Forms reports whether creates may be multipart forms, so that routes may set the option body.
	Forms bool
}

// The protocols.
var (
	Primary = Info{Name: "primary"}
	Videos  = Info{Name: "videos", Gateway: true, InputReference: true, Forms: true}
	Kling   = Info{Name: "kling", Segment: "kling", Signed: true, Gateway: true}
	Jimeng  = Info{Name: "jimeng", Segment: "jimeng", Signed: true, Gateway: true}
)

// all lists the protocols, the default one first.
var all = []Info{Primary, Videos, Kling, Jimeng}

// Default returns the protocol for routes that name none.
func Default() Info { return all[0] }

// All returns every protocol, the default one first.
func All() []Info { return slices.Clone(all) }

// Find returns the protocol called name.
func Find(name string) (Info, bool) {
	i := slices.IndexFunc(all, func(p Info) bool { return p.Name == name })
	if i < 0 {
		return Info{}, false
	}
	return all[i], true
}
