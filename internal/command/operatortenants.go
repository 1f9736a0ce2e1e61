package command

import (
	"context"
	"fmt"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

type tenantsCommand struct {
	Kind  string `help:"Count only jobs of this kind: video or chat."`
	Route string `help:"Count only jobs of this route."`
	Limit int    `help:"Maximum tenants to list, 1 to 100." default:"20"`
}

func (c tenantsCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	if c.Limit < 1 || c.Limit > maxPage {
		return WrongUse("--limit: %d is invalid; use 1 to %d, because tenants are listed on one page", c.Limit, maxPage)
	}
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListTenants(ctx, &genbusv1.ListTenantsRequest{Kind: c.Kind, Route: c.Route, PageSize: int32(c.Limit)})
		if err != nil {
			return answered(err)
		}
		return call.tenants(answer)
	})
}

type streamsCommand struct{}

func (streamsCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListStreams(ctx, &genbusv1.ListStreamsRequest{})
		if err != nil {
			return answered(err)
		}
		return call.streams(answer)
	})
}

func (p printer) tenants(m *genbusv1.ListTenantsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetTenants()) == 0 {
		return p.message(m, "no tenant has jobs")
	}
	var rows []string
	for _, t := range m.GetTenants() {
		most := ""
		if t.GetMaxJobs() > 0 {
			most = fmt.Sprint(t.GetMaxJobs())
		}
		rows = append(rows, cells(t.GetTenant(), fmt.Sprint(t.GetUnfinished()), fmt.Sprint(t.GetQueued()), most, moment(t.GetOldestUnfinished()),
			fmt.Sprint(t.GetAcceptedLastHour()), fmt.Sprint(t.GetEndedLastHour()), fmt.Sprint(t.GetFailedLastHour()), fmt.Sprint(t.GetRefusedLastHour()), fmt.Sprint(t.GetStoredBytes())))
	}
	if err := p.table("TENANT\tUNFINISHED\tQUEUED\tMAX\tOLDEST\tACCEPTED, 1 H\tENDED, 1 H\tFAILED, 1 H\tREFUSED, 1 H\tSTORED BYTES", rows); err != nil {
		return err
	}
	if err := p.silent(m.GetSilent()); err != nil {
		return err
	}
	if since := m.GetCompleteSince(); since != nil {
		return p.message(m, "%d of %d; jobs accepted before %s may be missing (limits.list_index)", len(m.GetTenants()), m.GetTotal(), moment(since))
	}
	return p.message(m, "%d of %d", len(m.GetTenants()), m.GetTotal())
}

func (p printer) streams(m *genbusv1.ListStreamsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	var rows []string
	for _, s := range m.GetStreams() {
		full := "refuses new messages when full"
		if s.GetDropsOld() {
			full = "drops the oldest when full"
		}
		rows = append(rows, cells(s.GetName(), fmt.Sprint(s.GetMessages()), fmt.Sprint(s.GetBytes()), fmt.Sprintf("%.1f %%", 100*s.GetUsed()), moment(s.GetOldest()), full))
	}
	return p.table("STREAM\tMESSAGES\tBYTES\tUSED\tOLDEST\t", rows)
}
