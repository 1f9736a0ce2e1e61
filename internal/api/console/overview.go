package console

import (
	"context"

	"golang.org/x/sync/errgroup"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// overviewLetters is how many dead letters the first page shows.
const overviewLetters = 5

type overviewPage struct {
	Routes    []*genbusv1.RouteState
	Paused    []*genbusv1.RouteState
	Letters   *genbusv1.ListDeadLettersResponse
	Upstreams *genbusv1.ListUpstreamsResponse
	Names     []string
}

// loadOverview reads its parts at the same time: some are asked of all replicas.
func loadOverview(ctx context.Context, c *Console, _ *query) (any, error) {
	var p overviewPage
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		out, err := c.api.ListRoutes(ctx, &genbusv1.ListRoutesRequest{})
		p.Routes = out.GetRoutes()
		for _, r := range p.Routes {
			if r.GetPaused() {
				p.Paused = append(p.Paused, r)
			}
		}
		return err
	})
	group.Go(func() (err error) {
		p.Letters, err = c.api.ListDeadLetters(ctx, &genbusv1.ListDeadLettersRequest{PageSize: overviewLetters})
		return err
	})
	group.Go(func() (err error) {
		p.Upstreams, err = c.api.ListUpstreams(ctx, &genbusv1.ListUpstreamsRequest{})
		p.Names = upstreamNames(p.Upstreams)
		return err
	})
	return p, group.Wait()
}
