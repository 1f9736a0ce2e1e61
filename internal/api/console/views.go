package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
)

// views maps patterns below Path to their pages.
var views = map[string]view{
	"":                                  {"overview", "Overview", "overview", loadOverview, true},
	"/jobs":                             {"jobs", "Jobs", "jobs", loadJobs, true},
	"/jobs/{kind}/{tenant}/{id}":        {"job", "Job", "jobs", loadJob, true},
	"/jobs/{kind}/{tenant}/{id}/bodies": {"bodies", "Request and reply", "jobs", loadBodies, false},
	"/bulk":                             bulkView,
	"/decisions":                        {"decisions", "Dead letters", "decisions", loadDecisions, true},
	"/decisions/{sequence}":             {"decision", "Dead letter", "decisions", loadDecision, true},
	"/routes":                           {"routes", "Routes", "routes", loadRoutes, true},
	"/upstreams":                        {"upstreams", "Upstreams and keys", "upstreams", loadUpstreams, true},
	"/tenants":                          {"tenants", "Tenants", "tenants", loadTenants, true},
	"/replicas":                         {"replicas", "Replicas", "replicas", loadReplicas, true},
	"/streams":                          {"streams", "Streams", "streams", loadStreams, true},
	"/audit":                            {"audit", "Audit", "audit", loadAudit, true},
	"/try":                              {"try", "Try", "try", loadTry, false},
}

func loadRoutes(ctx context.Context, c *Console, _ *query) (any, error) {
	routes, err := c.api.ListRoutes(ctx, &genbusv1.ListRoutesRequest{})
	if err != nil {
		return nil, err
	}
	orphans, err := c.api.ListOrphans(ctx, &genbusv1.ListOrphansRequest{})
	if err != nil {
		return nil, err
	}
	return struct {
		Routes  []*genbusv1.RouteState
		Orphans []*genbusv1.OrphanedRoute
	}{routes.GetRoutes(), orphans.GetRoutes()}, nil
}

func loadUpstreams(ctx context.Context, c *Console, _ *query) (any, error) {
	out, err := c.api.ListUpstreams(ctx, &genbusv1.ListUpstreamsRequest{})
	if err != nil {
		return nil, err
	}
	return struct {
		*genbusv1.ListUpstreamsResponse
		Names []string
	}{out, upstreamNames(out)}, nil
}

func upstreamNames(out *genbusv1.ListUpstreamsResponse) (names []string) {
	for _, u := range out.GetUpstreams() {
		if !slices.Contains(names, u.GetUpstream().GetName()) {
			names = append(names, u.GetUpstream().GetName())
		}
	}
	return names
}

func loadTenants(ctx context.Context, c *Console, r *query) (any, error) {
	if err := r.only("kind", "route"); err != nil {
		return nil, err
	}
	return c.api.ListTenants(ctx, &genbusv1.ListTenantsRequest{Kind: r.get("kind"), Route: r.get("route"), PageSize: 100})
}

func loadReplicas(ctx context.Context, c *Console, _ *query) (any, error) {
	return c.api.ListReplicas(ctx, &genbusv1.ListReplicasRequest{})
}

func loadStreams(ctx context.Context, c *Console, _ *query) (any, error) {
	return c.api.ListStreams(ctx, &genbusv1.ListStreamsRequest{})
}

func loadAudit(ctx context.Context, c *Console, r *query) (any, error) {
	if err := r.only("operator", "action", "job_id", "route", "tenant", "letter", "page_token"); err != nil {
		return nil, err
	}
	letter, err := strconv.ParseUint(cmp.Or(r.get("letter"), "0"), 10, 64)
	if err != nil {
		return nil, errcode.Invalid([]errcode.Violation{{Field: "letter", Description: "must be the number of a dead letter"}})
	}
	return c.api.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{
		Operator: r.get("operator"), Action: r.get("action"), JobId: strings.TrimSpace(r.get("job_id")), Route: r.get("route"), Tenant: r.get("tenant"),
		Letter: letter, PageSize: jobsPageSize, PageToken: r.get("page_token"),
	})
}

// tryModel is a video model. Requests for it use Protocol, the protocol of its route.
type tryModel struct{ Name, Protocol string }

// tryPage is the data of the Try page.
type tryPage struct {
	Videos []tryModel
	Chats  []string
	// Keys reports whether a tenant key is needed.
	Keys          bool
	VideoSubject  string
	ChatSubject   string
	GRPC, NATSURL string
	// HTTPTLS, GRPCTLS and NATSTLS are the TLS flags of curl, grpcurl and nats. CA and Certificate
	// report whether they need a file of certificates to trust, and a client certificate.
	HTTPTLS, GRPCTLS, NATSTLS string
	CA, Certificate           bool
}

// setTLS sets the flags for servers with TLS.
func (p *tryPage) setTLS(cfg *config.Config) {
	nats := config.ServerTLS{}
	if cfg.NATS.Embedded() {
		nats = config.ServerTLS{CertFile: cfg.NATS.TLS.CertFile, ClientCAFile: cfg.NATS.TLS.CAFile}
	}
	p.HTTPTLS = p.trust(cfg.HTTP.TLS, "--cacert", "--cert", "--key")
	p.GRPCTLS = cmp.Or(p.trust(cfg.GRPC.TLS, "-cacert", "-cert", "-key"), " -plaintext")
	p.NATSTLS = p.trust(nats, "--tlsca", "--tlscert", "--tlskey")
}

// trust returns a client's flags for a server, or "" without TLS.
func (p *tryPage) trust(t config.ServerTLS, ca, cert, key string) string {
	if !t.Enabled() {
		return ""
	}
	p.CA = true
	if t.ClientCAFile == "" {
		return fmt.Sprintf(` %s "$CA"`, ca)
	}
	p.Certificate = true
	return fmt.Sprintf(` %s "$CA" %s "$CERT" %s "$CERT_KEY"`, ca, cert, key)
}

func loadTry(_ context.Context, c *Console, _ *query) (any, error) {
	cfg := c.Config.Now()
	p := tryPage{Keys: len(cfg.APIKeys) > 0, GRPC: c.GRPCAddr, NATSURL: c.NATSURL}
	p.setTLS(cfg)
	for _, r := range cfg.Routes {
		for _, m := range r.Models {
			m = strings.TrimSuffix(m, "*") // for a pattern, the user types the rest of the name
			if r.Kind == string(subject.Chat) {
				p.Chats = append(p.Chats, m)
			} else {
				p.Videos = append(p.Videos, tryModel{Name: m, Protocol: r.Protocol})
			}
		}
	}
	rank := func(m tryModel) int { // models of the primary protocol come first
		if m.Protocol == protocol.Primary.Name {
			return 0
		}
		return 1
	}
	slices.SortFunc(p.Videos, func(a, b tryModel) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name)) })
	slices.Sort(p.Chats)
	tenant := config.DefaultTenant
	if p.Keys {
		tenant = "TENANT"
	}
	p.VideoSubject, p.ChatSubject = c.Names.Call(subject.Video, tenant), c.Names.Call(subject.Chat, tenant)
	return p, nil
}

func loadOverview(ctx context.Context, c *Console, _ *query) (any, error) {
	overview, err := c.api.GetOverview(ctx, &genbusv1.GetOverviewRequest{})
	if err != nil {
		return nil, err
	}
	attention, err := c.api.ListAttention(ctx, &genbusv1.ListAttentionRequest{})
	return struct {
		*genbusv1.GetOverviewResponse
		Attention *genbusv1.ListAttentionResponse
	}{overview, attention}, err
}
