// Package routes joins each configured route with the clients of its upstreams and lists the
// available models. Package config matches requests to routes.
package routes

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// Video is a video route with its clients.
type Video struct {
	config.Route
	// Wire is the route's protocol.
	Wire upstream.Protocol
	// Chooser picks among the route's upstream keys.
	Chooser *pool.Chooser
	clients map[pool.UpstreamKey]keyClient
}

// keyClient is the client of one upstream key in the route's protocol.
type keyClient struct {
	endpoint *upstream.Endpoint
	client   upstream.VideoClient
}

// Client returns the client of this upstream key, even if the route no longer lists its upstream.
// The bool is false if the key is not configured.
func (v Video) Client(a pool.UpstreamKey) (upstream.VideoClient, bool) {
	found, ok := v.clients[a]
	return found.client, ok
}

// HasKey reports whether an upstream key is configured.
func (v Video) HasKey(a pool.UpstreamKey) bool {
	_, ok := v.clients[a]
	return ok
}

// key returns the client for reading a task that was created with an upstream key. If the key was
// removed and its upstream has exactly one key, it returns the client of that one, because the key
// was probably renamed or replaced. If the upstream has several keys, any of them might know the
// task, so it returns none.
func (v Video) key(a pool.UpstreamKey) (keyClient, bool) {
	if found, ok := v.clients[a]; ok {
		return found, true
	}
	var only []keyClient
	for other, found := range v.clients {
		if other.Upstream == a.Upstream {
			only = append(only, found)
		}
	}
	if len(only) != 1 {
		return keyClient{}, false
	}
	return only[0], true
}

// Chat is a chat route with its caller.
type Chat struct {
	config.Route
	// Caller calls the route's upstreams, falling back from one to the next.
	Caller *pool.Chat
}

// Table holds all routes. A reload replaces them as a whole; routes looked up earlier do not
// change. It is safe for concurrent use.
type Table struct {
	pool   *pool.Pool
	now    atomic.Pointer[routing]
	models modelCache

	mu    sync.Mutex
	spent []*upstream.Transport // replaced by a reload
}

// routing holds the routes of one configuration. It is read-only once built.
type routing struct {
	cfg        *config.Config
	pool       *pool.Pool
	video      map[string]*Video
	chat       map[string]*Chat
	transports map[string]*upstream.Transport
	// reload is true if the pool applies the configuration only after the routing is built.
	reload bool
}

// New builds the clients of every route. Routes to the same upstream share its connections and
// limits. The logger may be nil.
func New(cfg *config.Config, metrics *telemetry.Metrics, logger *slog.Logger) (*Table, error) {
	t := &Table{pool: pool.New(cfg.Upstreams, pool.Options{Metrics: metrics, Logger: logger, Retry: cfg.Retry})}
	r, err := newRouting(cfg, t.pool, nil)
	if err != nil {
		return nil, err
	}
	t.now.Store(r)
	return t, nil
}

// Upstreams returns the state of all upstreams as seen by this process, sorted by name.
func (t *Table) Upstreams() []pool.UpstreamState { return t.pool.State() }

// Share exchanges the breaker state of creates with other replicas until stop is called.
func (t *Table) Share(conn *nats.Conn, subject, self string) (stop func(), err error) {
	return t.pool.Share(conn, subject, self)
}

// Polled reports the result of a poll to the pool; err is nil if the upstream answered.
func (t *Table) Polled(name string, err error) {
	t.pool.Polled(name, upstream.AsError(upstream.OpPoll, err))
}

// newRouting builds the clients of every route. An upstream keeps its connections from the previous
// routing unless max_idle_conns changed.
func newRouting(cfg *config.Config, p *pool.Pool, before *routing) (*routing, error) {
	t := &routing{cfg: cfg, pool: p, video: map[string]*Video{}, chat: map[string]*Chat{}, transports: map[string]*upstream.Transport{}, reload: before != nil}
	for name, u := range cfg.Upstreams {
		if before != nil && before.cfg.Upstreams[name].MaxIdleConns == u.MaxIdleConns {
			t.transports[name] = before.transports[name]
			continue
		}
		t.transports[name] = upstream.NewTransport(upstream.TransportOptions{MaxIdleConnsPerHost: u.MaxIdleConns, DisableKeepAlives: u.MaxIdleConns == 0})
	}
	for _, r := range cfg.Routes {
		if err := t.add(r); err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Name, err)
		}
	}
	return t, nil
}

func (t *routing) add(r config.Route) error {
	for _, target := range r.Upstreams {
		if _, ok := t.cfg.Upstreams[target.Name]; !ok {
			return fmt.Errorf("upstream %q not found", target.Name)
		}
	}
	if r.Kind == config.KindChat {
		return t.addChat(r)
	}
	p, ok := registry.Find(r.Protocol)
	if !ok {
		return fmt.Errorf("protocol %q not found", r.Protocol)
	}
	v := &Video{Route: r, Wire: p, clients: map[pool.UpstreamKey]keyClient{}}
	v.Chooser = t.chooser(r).Among(v.HasKey)
	for name, u := range t.cfg.Upstreams {
		if u.Auth == config.AuthSigned && p.Sign == nil {
			if slices.ContainsFunc(r.Upstreams, func(target config.Target) bool { return target.Name == name }) {
				return fmt.Errorf("upstream %s has auth: signed, but protocol %s has no signature", name, p.Name)
			}
			continue
		}
		for _, key := range u.Credentials() {
			ep := t.endpoint(name, u, key, p)
			client := p.New(ep, upstream.Options{Gateway: r.Gateway, InputReference: r.InputReference, Body: r.Body})
			v.clients[pool.UpstreamKey{Upstream: name, Key: key.Name}] = keyClient{endpoint: ep, client: client}
		}
	}
	t.video[r.Name] = v
	return nil
}

func (t *routing) addChat(r config.Route) error {
	clients := map[pool.UpstreamKey]*chat.Client{}
	for _, target := range r.Upstreams {
		u := t.cfg.Upstreams[target.Name]
		if u.Auth == config.AuthSigned {
			return fmt.Errorf("upstream %s has auth: signed, which chats do not support; set auth: bearer", target.Name)
		}
		for _, key := range u.Credentials() {
			clients[pool.UpstreamKey{Upstream: target.Name, Key: key.Name}] = chat.New(t.endpoint(target.Name, u, key, upstream.Protocol{}), chat.Options{
				FirstByte: r.Timeouts.FirstByte, Idle: r.Timeouts.Idle, Total: r.Timeouts.Total,
			})
		}
	}
	t.chat[r.Name] = &Chat{Route: r, Caller: pool.NewChat(t.chooser(r), func(a pool.UpstreamKey) *chat.Client { return clients[a] })}
	return nil
}

// chooser returns the chooser for the clients of this routing. During a reload, these belong to the
// pool's next configuration.
func (t *routing) chooser(r config.Route) *pool.Chooser {
	if t.reload {
		return t.pool.Chooser(r).Next()
	}
	return t.pool.Chooser(r)
}

// endpoint returns the endpoint that calls an upstream with one key in one protocol.
func (t *routing) endpoint(name string, u config.Upstream, key config.UpstreamKey, p upstream.Protocol) *upstream.Endpoint {
	ep := &upstream.Endpoint{
		Name: name, BaseURL: u.BaseURL, VersionPath: u.VersionPath,
		Key: upstream.Secret(key.Key.Reveal()), Transport: t.transports[name], ReuseConnections: u.ReuseConnectionsForCreates,
	}
	if p.Surface != nil { // a vendor's paths have the vendor's own version
		ep.BaseURL, ep.VersionPath = upstream.Root(u.BaseURL)+vendorPath(u, t.cfg.HTTP.Segments[p.Name]), "/v1"
	}
	if u.Auth == config.AuthSigned && p.Sign != nil {
		ep.Auth = p.Sign(key.AccessKey.Reveal(), key.SecretKey.Reveal())
	}
	if len(u.Headers) > 0 {
		ep.Header = map[string][]string{}
		for k, v := range u.Headers {
			ep.Header.Set(k, v)
		}
	}
	return ep
}

// Call is the request with which a route begins its jobs at an upstream.
type Call struct {
	Route, Upstream string
	// Request is the method and the URL, in the form shown to people.
	Request string
}

// Calls returns the calls of all routes, in the order of the configuration.
func (t *Table) Calls() []Call {
	var calls []Call
	now := t.now.Load()
	for _, r := range now.cfg.Routes {
		create := "POST " + chat.Path
		p, isVideo := registry.Find(r.Protocol)
		if isVideo {
			create = p.CreatePath
		}
		method, path, _ := strings.Cut(create, " ")
		for _, target := range r.Upstreams {
			u := now.cfg.Upstreams[target.Name]
			ep := now.endpoint(target.Name, u, u.Credentials()[0], p)
			calls = append(calls, Call{Route: r.Name, Upstream: target.Name, Request: method + " " + ep.URL(path)})
		}
	}
	return calls
}

// vendorPath returns the prefix of a vendor protocol's paths. If none is configured, it is the
// protocol's segment for a gateway, and empty for the vendor itself.
func vendorPath(u config.Upstream, segment string) string {
	switch {
	case u.VendorPath != "":
		return strings.TrimRight(u.VendorPath, "/")
	case u.Auth == config.AuthSigned:
		return ""
	default:
		return "/" + segment
	}
}

// Video returns the video route called name.
func (t *Table) Video(name string) (*Video, bool) {
	r, ok := t.now.Load().video[name]
	return r, ok
}

// Chat returns the chat route called name.
func (t *Table) Chat(name string) (*Chat, bool) {
	r, ok := t.now.Load().chat[name]
	return r, ok
}

func (t *routing) videoRoutes() []*Video {
	return slices.SortedFunc(maps.Values(t.video), func(a, b *Video) int { return strings.Compare(a.Name, b.Name) })
}

// Has reports whether a route of this kind exists.
func (t *Table) Has(kind subject.Kind, name string) bool {
	if kind == subject.Chat {
		_, ok := t.Chat(name)
		return ok
	}
	_, ok := t.Video(name)
	return ok
}

// Close closes idle connections.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, transport := range t.spent {
		transport.CloseIdleConnections()
	}
	for _, transport := range t.now.Load().transports {
		transport.CloseIdleConnections()
	}
}
