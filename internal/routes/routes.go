// Package routes joins each configured route with the client that speaks to its
// upstream. It chooses no route for a request (config does) and calls nothing
// by itself.
package routes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
	"github.com/genbus/genbus/internal/upstream/primary"
)

// Video is a route with its client.
type Video struct {
	config.Route
	Client upstream.VideoClient
}

// Chat is a route with its client.
type Chat struct {
	config.Route
	Client *chat.Client
}

// Table holds all routes. It is read-only once built.
type Table struct {
	video     map[string]Video
	chat      map[string]Chat
	endpoints map[string]*upstream.Endpoint
	models    modelCache
}

// protocols makes the client of each video protocol. A new protocol is one
// folder under internal/upstream and one line here.
var protocols = map[string]func(*upstream.Endpoint, config.Route) upstream.VideoClient{
	config.ProtocolPrimary: func(ep *upstream.Endpoint, _ config.Route) upstream.VideoClient {
		return primary.New(ep, primary.Options{})
	},
}

// New builds the clients of every route. Routes to one upstream share its
// connections.
func New(cfg *config.Config) (*Table, error) {
	t := &Table{video: map[string]Video{}, chat: map[string]Chat{}, endpoints: map[string]*upstream.Endpoint{}}
	for name, u := range cfg.Upstreams {
		t.endpoints[name] = endpoint(name, u)
	}
	for _, r := range cfg.Routes {
		if err := t.add(r); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func endpoint(name string, u config.Upstream) *upstream.Endpoint {
	ep := &upstream.Endpoint{
		Name: name, BaseURL: u.BaseURL, Key: upstream.Secret(u.Key.Reveal()),
		Client: upstream.NewHTTPClient(upstream.TransportOptions{MaxIdleConnsPerHost: u.MaxIdleConns}),
	}
	if len(u.Headers) > 0 {
		ep.Header = map[string][]string{}
		for k, v := range u.Headers {
			ep.Header.Set(k, v)
		}
	}
	return ep
}

func (t *Table) add(r config.Route) error {
	ep, ok := t.endpoints[r.Upstream]
	if !ok {
		return fmt.Errorf("route %s: there is no upstream %q", r.Name, r.Upstream)
	}
	if r.Kind == config.KindChat {
		t.chat[r.Name] = Chat{Route: r, Client: chat.New(ep, chat.Options{
			FirstByte: r.Timeouts.FirstByte, Answer: r.Timeouts.Total, Idle: r.Timeouts.Idle, Total: r.Timeouts.Total,
		})}
		return nil
	}
	build, ok := protocols[r.Protocol]
	if !ok {
		return fmt.Errorf("route %s: there is no protocol %q", r.Name, r.Protocol)
	}
	t.video[r.Name] = Video{Route: r, Client: build(ep, r)}
	return nil
}

// Video finds a video route by name.
func (t *Table) Video(name string) (Video, bool) {
	r, ok := t.video[name]
	return r, ok
}

// Chat finds a chat route by name.
func (t *Table) Chat(name string) (Chat, bool) {
	r, ok := t.chat[name]
	return r, ok
}

// VideoRoutes are all video routes, by name.
func (t *Table) VideoRoutes() []Video {
	return slices.SortedFunc(maps.Values(t.video), func(a, b Video) int { return compare(a.Name, b.Name) })
}

// ChatRoutes are all chat routes, by name.
func (t *Table) ChatRoutes() []Chat {
	return slices.SortedFunc(maps.Values(t.chat), func(a, b Chat) int { return compare(a.Name, b.Name) })
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// Has reports whether a route of this kind exists.
func (t *Table) Has(kind subject.Kind, name string) bool {
	if kind == subject.Chat {
		_, ok := t.chat[name]
		return ok
	}
	_, ok := t.video[name]
	return ok
}

// Close gives up idle connections.
func (t *Table) Close() {
	for _, ep := range t.endpoints {
		ep.Client.CloseIdleConnections()
	}
}

// modelCache keeps the upstreams' own lists for a minute.
type modelCache struct {
	mu   sync.Mutex
	at   time.Time
	list map[string][]upstream.Model // by upstream
}

// modelsFor is how long an upstream's list is kept, and modelsTimeout how long
// it may take: a listing must not hang on one dead upstream.
const (
	modelsFor     = time.Minute
	modelsTimeout = 5 * time.Second
)

// UpstreamModels asks every upstream for its models; an upstream that does not
// answer has none. The answer is kept for a minute.
func (t *Table) UpstreamModels(ctx context.Context) map[string][]upstream.Model {
	t.models.mu.Lock()
	defer t.models.mu.Unlock()
	if t.models.list != nil && time.Since(t.models.at) < modelsFor {
		return t.models.list
	}
	t.models.list, t.models.at = t.askAll(ctx), time.Now()
	return t.models.list
}

func (t *Table) askAll(ctx context.Context) map[string][]upstream.Model {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string][]upstream.Model{}
	for name, ep := range t.endpoints {
		wg.Go(func() {
			list, err := upstream.ListModels(ctx, ep)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = list
		})
	}
	wg.Wait()
	return out
}
