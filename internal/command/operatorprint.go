package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/task"
)

// printer prints answers as tables and lines, or as JSON.
type printer struct {
	out  io.Writer
	json bool
}

// asJSON prints a message in the JSON format of /genbus/v1, with underscores in names and without
// empty fields.
func (p printer) asJSON(m proto.Message) error {
	data, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err == nil {
		_, err = fmt.Fprintf(p.out, "%s\n", data)
	}
	return err
}

// message prints a sentence, or the message as JSON.
func (p printer) message(m proto.Message, format string, args ...any) error {
	if p.json {
		return p.asJSON(m)
	}
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	return err
}

func (p printer) job(m proto.Message, seq uint64, id string, status genbusv1.JobStatus) error {
	return p.message(m, "dead letter %d is now job %s (%s)", seq, id, task.StatusWord(status))
}

// table prints rows of tab-separated cells below a heading.
func (p printer) table(head string, rows []string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	return w.Flush()
}

func (p printer) deadLetters(m *genbusv1.ListDeadLettersResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetLetters()) == 0 {
		return p.message(m, "no dead letters")
	}
	var rows []string
	for _, s := range m.GetLetters() {
		l := s.GetLetter()
		rows = append(rows, cells(fmt.Sprint(s.GetSequence()), moment(l.GetTime()), deadLetterOf(s), l.GetKind(), l.GetTenant(), l.GetError().GetCode(),
			l.GetId(), upstreamKey(l), l.GetUpstreamTaskId(), fmt.Sprint(s.GetDataSize())))
	}
	if err := p.table("SEQUENCE\tTIME\tDEAD LETTER OF\tKIND\tTENANT\tCODE\tJOB\tUPSTREAM\tUPSTREAM TASK\tBYTES", rows); err != nil {
		return err
	}
	if m.GetNextPageToken() != "" {
		return p.message(m, "More exist; see --limit.")
	}
	return nil
}

// deadLetter prints a dead letter, with its request if body is set.
func (p printer) deadLetter(s *genbusv1.StoredDeadLetter, body bool) error {
	l := s.GetLetter()
	if p.json {
		if !body {
			l.Data, l.Reply = nil, nil
		}
		return p.asJSON(s)
	}
	rows := []string{
		cells("sequence", fmt.Sprint(s.GetSequence())), cells("time", moment(l.GetTime())), cells("dead letter of", deadLetterOf(s)), cells("code", l.GetError().GetCode()),
		cells("message", l.GetError().GetMessage()), cells("to do", remedy(l.GetError().GetCode())), cells("kind", l.GetKind()), cells("tenant", l.GetTenant()), cells("job", l.GetId()),
		cells("upstream", upstreamKey(l)), cells("upstream task", l.GetUpstreamTaskId()), cells("submissions", fmt.Sprint(l.GetAttempt())),
		cells("subject", l.GetSubject()), cells("request", requestSize(s)),
	}
	if w := l.GetWork(); w != nil {
		rows = append(rows, cells("model", w.GetModel()), cells("route", w.GetRoute()), cells("protocol", w.GetProtocol()),
			cells("accepted", moment(w.GetAcceptedAt())), cells("retry of", w.GetRetryOf()))
	}
	if own := l.GetOwnTaskId(); own != "" {
		rows = append(rows, cells("our id there", own))
	}
	for _, look := range l.GetLookUps() {
		rows = append(rows, cells("looked up "+moment(look.GetTime()), task.LookUpText(look)))
	}
	for _, h := range l.GetHeaders() {
		rows = append(rows, cells("header "+h.GetKey(), strings.Join(h.GetValues(), ", ")))
	}
	if err := p.table("FIELD\tVALUE", rows); err != nil || !body {
		return err
	}
	return p.body(l)
}

// remedy returns what an operator can do about an error. It is empty for a code of a newer server.
func remedy(code string) string {
	m := errcode.MeaningOf(errcode.Code(code))
	if string(m.Code) != code {
		return ""
	}
	return m.ForOperators()
}

// deadLetterOf returns what a dead letter stands for, a job or a rejected request.
func deadLetterOf(s *genbusv1.StoredDeadLetter) string {
	if s.GetRejected() {
		return "rejected request"
	}
	return "job"
}

func requestSize(s *genbusv1.StoredDeadLetter) string {
	if s.GetLetter().GetCut() != nil {
		return plural.Count(s.GetDataSize(), "byte") + ", cut: too large to be kept whole"
	}
	return plural.Count(s.GetDataSize(), "byte")
}

func (p printer) body(l *genbusv1.DeadLetter) error {
	if ref := l.GetDataRef(); ref != nil {
		return fmt.Errorf("the request is not included: object %s of %s is gone or exceeds grpc.max_message_bytes", clean(ref.GetName()), clean(ref.GetBucket()))
	}
	_, err := fmt.Fprintf(p.out, "\n%s\n", l.GetData())
	return err
}

func (p printer) routes(m proto.Message, routes ...*genbusv1.RouteState) error {
	if p.json {
		return p.asJSON(m)
	}
	var rows []string
	for _, r := range routes {
		starts := ""
		if r.StartsLastMinute != nil {
			starts = fmt.Sprint(r.GetStartsLastMinute())
		}
		rows = append(rows, cells(r.GetKind(), r.GetName(), routeState(r), fmt.Sprint(r.GetWaiting()), fmt.Sprint(r.GetReadyWindow()), fmt.Sprint(r.GetInHand()),
			fmt.Sprint(r.GetMaxInFlight()), starts, moment(r.GetOldestWaiting())))
	}
	return p.table("KIND\tROUTE\tSTATE\tWAITING\tREADY AT MOST\tHELD\tMAX\tSTARTED, 1 MIN\tOLDEST WAITING", rows)
}

// routeState describes whether a route runs, its pause, and whether its state is incomplete.
func routeState(r *genbusv1.RouteState) string {
	state := "running"
	switch {
	case r.GetDraining() && r.GetPaused():
		state = "draining, paused"
	case r.GetDraining():
		state = "draining"
	case r.GetPaused():
		state = "paused"
	}
	p := r.GetPause()
	if p.GetSince() != nil {
		state += fmt.Sprintf(" since %s by %s", moment(p.GetSince()), p.GetBy())
	}
	state += endAndReason(p.GetUntil(), p.GetReason())
	if r.GetIncomplete() {
		state += ", incomplete"
	}
	return state
}

// endAndReason describes the end and the reason of a pause, if any.
func endAndReason(until *timestamppb.Timestamp, reason string) (text string) {
	if until != nil {
		text = " until " + moment(until)
	}
	if reason != "" {
		text += " (" + reason + ")"
	}
	return text
}

// cells joins the cells of a row. It cleans them because text from other sources must not control
// the terminal.
func cells(values ...string) string {
	for i, v := range values {
		values[i] = cmp.Or(clean(v), "-")
	}
	return strings.Join(values, "\t")
}

// clean replaces unprintable characters and line breaks.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return '\uFFFD'
	}, s)
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

func upstreamKey(l *genbusv1.DeadLetter) string {
	return upstreamKeyOf(l.GetUpstream(), l.GetUpstreamKey())
}

func upstreamKeyOf(upstream, key string) string {
	if key == "" {
		return upstream
	}
	return upstream + "/" + key
}

func (p printer) orphans(m *genbusv1.ListOrphansResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetRoutes()) == 0 {
		return p.message(m, "no jobs of unconfigured routes")
	}
	var rows []string
	for _, r := range m.GetRoutes() {
		rows = append(rows, cells(r.GetKind(), r.GetName(), fmt.Sprint(r.GetReady()), fmt.Sprint(r.GetWaiting()), moment(r.GetOldest())))
	}
	return p.table("KIND\tROUTE\tREADY OR HELD\tBACKLOG\tOLDEST", rows)
}

func (p printer) orphansFailed(m *genbusv1.OrphansSettled) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetLeft()) > 0 {
		rows := make([]string, 0, len(m.GetLeft()))
		for _, l := range m.GetLeft() {
			rows = append(rows, cells(l.GetTenant(), l.GetId(), l.GetReason()))
		}
		if err := p.table("TENANT\tJOB LEFT\tREASON", rows); err != nil {
			return err
		}
	}
	removed := ""
	if m.GetRemoved() > 0 {
		removed = ", " + plural.Count(m.GetRemoved(), "work item") + " removed that no job needed"
	}
	return p.message(m, "%s ended%s, %s left", plural.Count(m.GetEnded(), "job"), removed, plural.Count(len(m.GetLeft()), "job"))
}
