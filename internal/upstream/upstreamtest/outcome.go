package upstreamtest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// Outcome is one kind of answer to a create, and how it must be judged.
type Outcome struct {
	Name   string
	Status int
	Body   string
	// First and Retry are the verdicts on a first submission and on a resubmission.
	First, Retry upstream.Verdict
	// Scope is what the refusal applies to.
	Scope upstream.Scope
}

// Answer returns an Outcome.
func Answer(name string, status int, body string, first, retry upstream.Verdict, scope upstream.Scope) Outcome {
	return Outcome{Name: name, Status: status, Body: body, First: first, Retry: retry, Scope: scope}
}

// CheckOutcomes serves the answers in cases and those shared by all protocols, and checks how the
// client judges each for a first submission and for a resubmission.
func CheckOutcomes(t *testing.T, s Subject, cases []Outcome) {
	t.Helper()
	for _, c := range slices.Concat(cases, sharedOutcomes) {
		for _, retry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/retry=%v", c.Name, retry), func(t *testing.T) {
				t.Parallel()
				c.check(t, s, retry)
			})
		}
	}
}

func (c Outcome) check(t *testing.T, s Subject, retry bool) {
	t.Helper()
	requests := make(chan *http.Request, 4)
	client := s.serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if c.Status/100 == 3 {
			w.Header().Set("Location", "/v1/elsewhere")
		}
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(c.Status)
		_, _ = w.Write([]byte(c.Body))
	})
	create := s.Create
	create.Resubmission = retry
	sub := client.Create(t.Context(), create)
	want := c.First
	if retry {
		want = c.Retry
	}
	c.compare(t, sub, want)
	if n := len(requests); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
	if got := (<-requests).Header.Get("Idempotency-Key"); got != create.JobID {
		t.Errorf("Idempotency-Key = %q, want the job's id", got)
	}
}

func (c Outcome) compare(t *testing.T, sub upstream.Submission, want upstream.Verdict) {
	t.Helper()
	accepted := want == upstream.Accepted
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if (sub.Err == nil) != accepted || (sub.UpstreamID != "") != accepted || (sub.Ticket != "" && !accepted) {
		t.Errorf("submission %+v does not fit the verdict %v", sub, want)
	}
	e := sub.Err
	if e == nil {
		return
	}
	if e.Scope != c.Scope {
		t.Errorf("the error is about the %v, want the %v (%v)", e.Scope, c.Scope, e)
	}
	if want == upstream.RefusedForGood && c.Scope != upstream.ScopeUpstream && (e.Denial != upstream.NotDenied) != (c.Scope == upstream.ScopeKey) {
		t.Errorf("the error about the %v has denial %d (%v)", c.Scope, e.Denial, e)
	}
	if e.Final != (want == upstream.RefusedForGood) || !e.Written || e.HTTPStatus != c.Status || e.RequestID != "req-1" {
		t.Errorf("error = %+v does not fit the verdict %v", e, want)
	}
}

// CheckPollErrors checks that every answer outside 2xx makes a poll fail without reporting a state.
// Exception: an answer that refuses the request for good may name the end of the task.
func CheckPollErrors(t *testing.T, s Subject, cases []Outcome) {
	t.Helper()
	for _, c := range slices.Concat(cases, sharedOutcomes) {
		if c.Status/100 == 2 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			client := s.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.Status)
				_, _ = w.Write([]byte(c.Body))
			})
			state, err := client.Poll(t.Context(), s.Ref)
			if state.Progression == upstream.Failed && c.Retry == upstream.RefusedForGood && c.Scope == upstream.ScopeRequest {
				return
			}
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Op != upstream.OpPoll || e.HTTPStatus != c.Status || e.RetryAfter != 7*time.Second || state.Progression != upstream.Running {
				t.Errorf("Poll = %+v, %+v", state, err)
			}
		})
	}
}

// CheckRows checks that a table ends with the shared rows, that no row is hidden by an earlier one,
// that every row names its source, and that each of the table's own rows and of WordRows has a case.
func CheckRows(t *testing.T, rows upstream.Outcomes, cases []Outcome, shared ...upstream.Outcomes) {
	t.Helper()
	tail := slices.Concat(shared...)
	own := len(rows) - len(tail)
	if own < 0 || !slices.Equal(rows[own:], tail) {
		t.Fatalf("the table does not end with the shared rows")
	}
	tested := map[int]bool{}
	for _, c := range slices.Concat(cases, sharedOutcomes) {
		said, _ := upstream.ParseErrorBody([]byte(c.Body))
		tested[rows.Find(&upstream.Error{HTTPStatus: c.Status, Code: upstream.Meaningful(said.Code), Type: said.Type, Wrapped: said.Wrapped, Message: said.Message})] = true
	}
	words := len(rows) - len(upstream.WordRows) - len(upstream.StatusRows)
	for i, r := range rows {
		if !decides(rows, i) {
			t.Errorf("row %d %+v never decides", i, r)
		}
		if r.Source == "" {
			t.Errorf("row %d %+v has no source", i, r)
		}
		if (i < own || i >= words && r.Code != "") && !tested[i] {
			t.Errorf("row %d %+v has no case", i, r)
		}
	}
}

// decides reports whether the row is the first match for some answer.
func decides(rows upstream.Outcomes, row int) bool {
	r := rows[row]
	e := &upstream.Error{Code: r.Code, Message: r.Text}
	if r.Code == "" {
		e.Code = "unlisted"
	}
	for e.HTTPStatus = r.From; e.HTTPStatus <= r.To; e.HTTPStatus++ {
		if rows.Find(e) == row {
			return true
		}
	}
	return false
}
