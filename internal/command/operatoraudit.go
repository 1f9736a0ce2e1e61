package command

import (
	"context"
	"fmt"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/operator/audit"
)

type auditCommand struct {
	By         string `help:"Show only actions of this operator, by key name."`
	Action     string `help:"Show only this action, such as PauseRoute."`
	Job        string `help:"Show only actions on this job."`
	Route      string `help:"Show only actions on routes of this name."`
	DeadLetter uint64 `help:"Show only actions on this dead letter." name:"letter"`
	Tenant     string `help:"Show only actions on jobs of this tenant."`
	Limit      int    `help:"Maximum records to list; 0 for all." default:"100"`
}

func (c auditCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		all := &genbusv1.ListAuditRecordsResponse{}
		request := &genbusv1.ListAuditRecordsRequest{Operator: c.By, Action: c.Action, JobId: c.Job, Route: c.Route, Letter: c.DeadLetter, Tenant: c.Tenant}
		err := eachPage(c.Limit, func(size int32) (listed int, more bool, err error) {
			request.PageSize = size
			page, err := call.ListAuditRecords(ctx, request)
			all.Records = append(all.GetRecords(), page.GetRecords()...)
			request.PageToken, all.NextPageToken = page.GetNextPageToken(), page.GetNextPageToken()
			return len(all.GetRecords()), request.GetPageToken() != "", err
		})
		if err != nil {
			return err
		}
		return call.audit(all)
	})
}

func (p printer) audit(m *genbusv1.ListAuditRecordsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetRecords()) == 0 {
		return p.message(m, "no records")
	}
	var rows []string
	for _, s := range m.GetRecords() {
		r := s.GetRecord()
		what := audit.Sentence(r)
		if b := r.GetBulk(); b != nil {
			what += fmt.Sprintf("; filter %s, token %s", errcode.Clip(b.GetFilter(), 80), b.GetToken())
		}
		rows = append(rows, cells(moment(r.GetTime()), what, audit.Outcome(r), r.GetCode(), r.GetRequestId()))
	}
	if err := p.table("TIME\tACTION\tOUTCOME\tCODE\tREQUEST", rows); err != nil {
		return err
	}
	if m.GetNextPageToken() != "" {
		return p.message(m, "More exist; see --limit.")
	}
	return nil
}
