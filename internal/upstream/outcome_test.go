package upstream

import (
	"slices"
	"strings"
	"testing"
)

// sharedRow holds the verdicts expected of a shared row: for a first submission, a resubmission,
// and a first submission with an unreadable body.
type sharedRow struct {
	from, to             int
	code                 string
	first, again, unread Verdict
	scope                Scope
}

const (
	good = RefusedForGood
	now  = RefusedForNow
	who  = Unknown
)

var gatewayRows = []sharedRow{
	{400, 599, "model_not_found", good, good, who, ScopeUpstream},
	{400, 599, "invalid_request", good, good, who, ScopeRequest},
	{400, 400, "task_failed", good, good, who, ScopeRequest},
	{400, 599, "system_cpu_overloaded", now, now, who, ScopeUpstream},
	{400, 599, "system_memory_overloaded", now, now, who, ScopeUpstream},
	{400, 599, "system_disk_overloaded", now, now, who, ScopeUpstream},
	{500, 599, "fail_to_fetch_task", who, who, who, ScopeUpstream},
	{402, 402, "fail_to_fetch_task", good, good, who, ScopeUpstream},
	{401, 403, "fail_to_fetch_task", good, good, who, ScopeUpstream},
}

var statusRows = []sharedRow{
	{200, 299, "", who, who, who, ScopeUpstream},
	{301, 301, "", good, good, good, ScopeUpstream},
	{307, 308, "", good, good, good, ScopeUpstream},
	{300, 399, "", who, who, who, ScopeUpstream},
	{402, 402, "", good, good, who, ScopeKey},
	{401, 403, "", good, good, who, ScopeKey},
	{404, 405, "", good, who, now, ScopeUpstream},
	{408, 408, "", who, who, who, ScopeUpstream},
	{425, 425, "", who, who, who, ScopeUpstream},
	{429, 429, "", now, now, now, ScopeKey},
	{400, 499, "", good, who, who, ScopeRequest},
	{500, 599, "", who, who, who, ScopeUpstream},
}

// visualRows is VisualRows(200, 599), with equal codes on one line.
var visualRows = []sharedRow{
	{200, 599, "50411 50412 50413 50511 50512 50513 50514 50516 50517 50518 50519", good, good, who, ScopeRequest},
	{200, 599, "50520 50521 50522 50215", good, good, who, ScopeRequest},
	{200, 599, "50400", good, good, who, ScopeKey},
	{200, 599, "50429 50430", now, now, who, ScopeKey},
	{200, 599, "50500 50501", who, who, who, ScopeUpstream},
}

func TestGatewayRows(t *testing.T) {
	t.Parallel()
	checkRows(t, GatewayRows, gatewayRows)
}

func TestStatusRows(t *testing.T) {
	t.Parallel()
	checkRows(t, StatusRows, statusRows)
}

func TestVisualRows(t *testing.T) {
	t.Parallel()
	var want []sharedRow
	for _, line := range visualRows {
		for code := range strings.FieldsSeq(line.code) {
			row := line
			row.code = code
			want = append(want, row)
		}
	}
	checkRows(t, VisualRows(200, 599), want)
	for _, r := range VisualRows(400, 599) {
		if r.From != 400 || r.To != 599 {
			t.Errorf("row %s is for %d to %d", r.Code, r.From, r.To)
		}
	}
}

// checkRows checks rows against want at both ends of each range, and that there are no others.
func checkRows(t *testing.T, rows Outcomes, want []sharedRow) {
	t.Helper()
	if len(rows) != len(want) {
		t.Errorf("there are %d rows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		at := slices.IndexFunc(rows, func(r OutcomeRow) bool { return r.From == w.from && r.To == w.to && r.Code == w.code })
		if at != i {
			t.Errorf("%d to %d %s is row %d, want %d", w.from, w.to, w.code, at, i)
			continue
		}
		e := &Error{HTTPStatus: w.from, Code: w.code}
		for e.HTTPStatus < w.to && rows.Find(e) != i {
			e.HTTPStatus++ // an earlier row covers a narrower range
		}
		checkRow(t, rows, *e, w)
		e.HTTPStatus = w.to
		if rows.Find(e) == i {
			checkRow(t, rows, *e, w)
		}
	}
}

func checkRow(t *testing.T, rows Outcomes, e Error, w sharedRow) {
	t.Helper()
	for _, ask := range []struct {
		said, again bool
		want        Verdict
	}{{true, false, w.first}, {true, true, w.again}, {false, false, w.unread}} {
		e.Reported = ask.said
		got := rows.Judge(&e, ask.again)
		if got != ask.want || e.Scope != w.scope || e.Final != (got == RefusedForGood) {
			t.Errorf("%d %s, said %v, again %v: %v about the %v, final %v; want %v about the %v",
				e.HTTPStatus, e.Code, ask.said, ask.again, got, e.Scope, e.Final, ask.want, w.scope)
		}
	}
}

func TestUnlistedAnswersAreUnknown(t *testing.T) {
	t.Parallel()
	rows := SharedRows()
	for _, e := range []Error{
		{HTTPStatus: 999, Reported: true},
		{HTTPStatus: 500, Code: "task_failed", Reported: true},
		{HTTPStatus: 200, Code: "invalid_request", Reported: true},
	} {
		if got := rows.Judge(&e, false); got != Unknown {
			t.Errorf("%d %s: %v", e.HTTPStatus, e.Code, got)
		}
	}
	e := Error{HTTPStatus: 429, Type: "insufficient_quota", Reported: true}
	if got := rows.Judge(&e, false); got != RefusedForGood {
		t.Errorf("a type in place of the code: %v", got)
	}
}
