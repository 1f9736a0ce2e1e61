package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
)

type overviewCommand struct{}

func (overviewCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.GetOverview(ctx, &genbusv1.GetOverviewRequest{})
		if err != nil {
			return answered(err)
		}
		return call.overview(answer)
	})
}

func (p printer) overview(m *genbusv1.GetOverviewResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	var rows []string
	for _, r := range m.GetRoutes() {
		s, minute, hour := r.GetRoute(), [4]string{}, [4]string{}
		if of := r.GetMinutes(); len(of) > 1 {
			minute, hour = happened(of[len(of)-2:len(of)-1]), happened(of)
		}
		rows = append(rows, cells(s.GetKind(), s.GetName(), routeState(s), fmt.Sprint(s.GetWaiting()), fmt.Sprint(s.GetInHand()),
			minute[0], minute[1], minute[2], minute[3], hour[0], hour[1], hour[2], hour[3]))
	}
	if err := p.table("KIND\tROUTE\tSTATE\tWAITING\tHELD\tACCEPTED, 1 MIN\tSTARTED\tENDED\tFAILED\tACCEPTED, 1 H\tSTARTED\tENDED\tFAILED", rows); err != nil {
		return err
	}
	rows = nil
	for _, u := range m.GetUpstreams() {
		rows = append(rows, cells(u.GetName(), healthOf(u), share(uint64(u.GetKeysResting()), uint64(u.GetKeys())), share(u.GetCallsFailed(), u.GetCalls())))
	}
	if _, err := fmt.Fprintln(p.out); err != nil {
		return err
	}
	if err := p.table("UPSTREAM\tSTATE\tKEYS RESTING\tCALLS FAILED, 5 MIN", rows); err != nil {
		return err
	}
	unfinished := plural.Count(m.GetUnfinished(), "job") + plural.Form(m.GetUnfinished(), " has", " have") + " not ended"
	if m.GetIndexAsOf() == nil {
		unfinished = "no replica has the job index ready"
	}
	letters := "dead letters not counted"
	if d := m.GetDeadLetters(); d != nil {
		letters = fmt.Sprintf("dead letters: %d to decide (submission_outcome_unknown), %s, %d not looked at, %s",
			d.GetOutcomeUnknown(), plural.Count(d.GetOther(), "other"), d.GetUncounted(), plural.Count(d.GetRejected(), "rejected request"))
	}
	if err := p.message(m, "\n%s; %s; %s; as of %s", unfinished, letters, plural.Count(m.GetReplicas(), "replica"), moment(m.GetAsOf())); err != nil {
		return err
	}
	if missing := m.GetMissing(); len(missing) > 0 {
		if err := p.message(m, "not available: %s", strings.Join(missing, ", ")); err != nil {
			return err
		}
	}
	return p.silent(m.GetSilent())
}

// happened returns the sums of accepted, started, ended and failed jobs over some minutes.
func happened(minutes []*genbusv1.RouteMinute) [4]string {
	var n [4]uint64
	for _, m := range minutes {
		for i, more := range [4]uint32{m.GetAccepted(), m.GetStarted(), m.GetEnded(), m.GetFailed()} {
			n[i] += uint64(more)
		}
	}
	return [4]string{fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[2]), fmt.Sprint(n[3])}
}

// healthOf describes the worst state of an upstream.
func healthOf(u *genbusv1.UpstreamHealth) string {
	switch {
	case u.GetBreaker() == genbusv1.UpstreamState_BREAKER_OPEN:
		return "breaker open (" + plural.Count(u.GetBreakersNotClosed(), "replica") + ")"
	case u.GetBreaker() == genbusv1.UpstreamState_BREAKER_HALF_OPEN:
		return "breaker half open (" + plural.Count(u.GetBreakersNotClosed(), "replica") + ")"
	case u.GetPaused():
		return "paused"
	}
	return "in use"
}
