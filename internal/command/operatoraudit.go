package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/plural"
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
		rows = append(rows, cells(moment(r.GetTime()), r.GetOperator(), r.GetAction(), auditTarget(r), auditOutcome(r), r.GetCode(), r.GetNewJobId(), r.GetRequestId()))
	}
	if err := p.table("TIME\tOPERATOR\tACTION\tOF\tOUTCOME\tCODE\tNEW JOB\tREQUEST", rows); err != nil {
		return err
	}
	if m.GetNextPageToken() != "" {
		return p.message(m, "More exist; see --limit.")
	}
	return nil
}

// auditTarget describes the target of an action.
func auditTarget(r *genbusv1.AuditRecord) string {
	switch {
	case r.GetBulk() != nil:
		return errcode.Clip(r.GetBulk().GetFilter(), 80) + " token " + r.GetBulk().GetToken()
	case r.GetLetter() != 0:
		return fmt.Sprint("dead letter ", r.GetLetter())
	case r.GetRoute() != "":
		return r.GetKind() + " route " + r.GetRoute()
	case r.GetJobId() != "":
		return r.GetJobId() + " of " + r.GetTenant()
	}
	return ""
}

func auditOutcome(r *genbusv1.AuditRecord) string {
	if r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_BEGUN {
		return "not known"
	}
	out := strings.ToLower(strings.TrimPrefix(r.GetOutcome().String(), "OUTCOME_"))
	if r.GetJobs() > 0 {
		out += ", " + plural.Count(r.GetJobs(), "job")
	}
	if b := r.GetBulk(); b.GetTotal() > 0 {
		out += fmt.Sprintf(", %d of %d changed, %d failed", b.GetChanged(), b.GetTotal(), b.GetFailed())
	}
	if r.GetEdited() {
		out += ", edited"
	}
	return out + endAndReason(r.GetUntil(), r.GetReason())
}
