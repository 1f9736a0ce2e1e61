package config

import (
	"maps"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/protocol"
)

// Names that AddSandbox uses.
const (
	SandboxUpstream    = "sandbox"
	SandboxVideoRoute  = "sandbox-video"
	SandboxChatRoute   = "sandbox-chat"
	SandboxVideoModels = "sandbox-video*"
	SandboxChatModels  = "sandbox-chat*"
)

// ShowAll keeps the requests of all routes and lets operators read bodies, so that a trial shows
// everything the console can do. It has no effect unless the sandbox is the only upstream. Reload
// preserves these settings.
func (c *Config) ShowAll() {
	if !c.Sandbox.Enabled || len(c.Upstreams) > 1 {
		return
	}
	c.Sandbox.Trial, c.OperatorsReadBodies = true, true
	for i := range c.Routes {
		c.Routes[i].KeepRequests = true
	}
}

// AddSandbox adds the upstream "sandbox" at baseURL, a route for each video protocol and one for
// chats, and prepares the configuration again. The video routes poll every 250 ms. Existing routes
// continue to serve all other models. If AddSandbox fails, for example because a route's name is
// taken, it leaves the configuration unchanged.
func (c *Config) AddSandbox(baseURL string) error {
	next := *c
	next.Upstreams = maps.Clone(c.Upstreams)
	next.Routes = slices.Clone(c.Routes)
	next.APIKeys, next.OperatorKeys = slices.Clone(c.APIKeys), slices.Clone(c.OperatorKeys)
	next.fill() // before the second upstream is added, so that a single configured one still gets its catch-all routes
	next.Sandbox.Enabled = true
	r := newReport("")
	if _, taken := c.Upstreams[SandboxUpstream]; taken {
		r.add(join("upstreams", SandboxUpstream), "is already configured; want another name with --sandbox")
		return r.err()
	}
	if next.Upstreams == nil {
		next.Upstreams = Upstreams{}
	}
	next.Upstreams[SandboxUpstream] = NewUpstream(baseURL)
	video := NewRoute(SandboxVideoRoute, KindVideo, SandboxUpstream, SandboxVideoModels)
	video.Poll.Interval = 250 * time.Millisecond
	chat := NewRoute(SandboxChatRoute, KindChat, SandboxUpstream, SandboxChatModels)
	next.Routes = append(next.Routes, video, chat)
	for _, p := range protocol.All() {
		if p == protocol.Default() {
			continue
		}
		name := SandboxUpstream + "-" + p.Name
		route := NewRoute(name, KindVideo, SandboxUpstream, name+"*")
		route.Protocol, route.Group, route.Poll.Interval = p.Name, p.Name, video.Poll.Interval
		next.Routes = append(next.Routes, route)
	}
	next.prepare(r)
	if err := r.err(); err != nil {
		return err
	}
	*c = next
	return nil
}
