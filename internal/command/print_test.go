package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
	"github.com/genbus/genbus/internal/task"
)

// TestTasksSayTheirPhase checks that tasks and events show a phase finer than the status, and the
// refusal after which a task waits.
func TestTasksSayTheirPhase(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printer{out: &out}
	submitting := &genbusv1.Execution{Phase: genbusv1.JobPhase_JOB_PHASE_SUBMITTING}
	err := errors.Join(
		p.video(&genbusv1.GetVideoTaskResponse{Task: &genbusv1.VideoTask{Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, Execution: submitting}}),
		p.chat(&genbusv1.GetChatCompletionResponse{Chat: &genbusv1.Chat{Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, Execution: submitting}}),
	)
	if err != nil || strings.Count(out.String(), "(submitting)\n") != 2 {
		t.Errorf("%v:\n%s", err, out.String())
	}
	waits := &genbusv1.VideoTask{Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, UpstreamStatus: "rate_limited", Execution: &genbusv1.Execution{Phase: genbusv1.JobPhase_JOB_PHASE_QUEUED}}
	if got := EventDetail(task.Event{Job: waits}); got != "  (waits after rate_limited)" {
		t.Errorf("an event says %q", got)
	}
}

// TestExitCodesByNATS checks that errors by NATS and by gRPC have the same exit codes.
func TestExitCodesByNATS(t *testing.T) {
	t.Parallel()
	for code, want := range map[client.Code]int{
		client.ErrInvalidRequest: ExitUsage, client.ErrTaskNotFound: ExitNotFound, client.ErrBrokerUnavailable: ExitUnavailable,
		client.ErrRateLimited: ExitUnavailable, client.ErrInternal: ExitFailed, client.ErrBodyTooLarge: ExitUsage, client.ErrExpired: ExitFailed,
	} {
		if got := ExitCode(fmt.Errorf("follow x: %w", &client.Error{Code: code})); got != want {
			t.Errorf("%s ends with %d, want %d", code, got, want)
		}
		f := errcode.New(errcode.Code(code), "no")
		if got := ExitCode(answered(grpcstatus.Of(f).Err())); got != want {
			t.Errorf("%s by gRPC ends with %d, want %d", code, got, want)
		}
	}
}

// TestExitCodesWithoutACode checks the exit codes of errors from gRPC itself and of unknown codes.
func TestExitCodesWithoutACode(t *testing.T) {
	t.Parallel()
	newer := grpcstatus.Of(errcode.New("of_tomorrow", "no")).Proto()
	newer.Code = int32(codes.ResourceExhausted)
	for _, err := range []error{
		status.Error(codes.Unavailable, "connection refused"), status.Error(codes.DeadlineExceeded, "too late"), status.FromProto(newer).Err(),
	} {
		if got := ExitCode(answered(err)); got != ExitUnavailable {
			t.Errorf("%v ends with %d, want %d", err, got, ExitUnavailable)
		}
	}
}

func TestGaugeKeepsItsWidth(t *testing.T) {
	t.Parallel()
	for _, percent := range []int32{-5, 0, 1, 50, 99, 100, 250} {
		if g := gauge(percent); len(g) != gaugeWidth+2 {
			t.Errorf("%d %% is %q", percent, g)
		}
	}
}

// TestOnlyWhatMayHaveMadeAJobIsUnknown checks that requests that were refused or not sent do not
// count as unknown.
func TestOnlyWhatMayHaveMadeAJobIsUnknown(t *testing.T) {
	t.Parallel()
	sent := peer.Peer{Addr: &net.TCPAddr{}}
	for name, row := range map[string]struct {
		err  error
		to   peer.Peer
		want bool
	}{
		"cut":           {status.Error(codes.Unavailable, "EOF"), sent, true},
		"not sent":      {status.Error(codes.Unavailable, "connection refused"), peer.Peer{}, false},
		"not known":     {grpcstatus.Of(errcode.New(errcode.AcceptanceUnknown, "no")).Err(), sent, true},
		"refused":       {grpcstatus.Of(errcode.New(errcode.BrokerUnavailable, "no")).Err(), sent, false},
		"by a proxy":    {status.Error(codes.Unauthenticated, "no"), sent, false},
		"no genbus":     {status.Error(codes.Unimplemented, "no"), sent, false},
		"no such model": {grpcstatus.Of(errcode.New(errcode.ModelNotFound, "no")).Err(), sent, false},
	} {
		if err := created(row.err, row.to, "r1"); errors.Is(err, client.ErrAcceptanceUnknown) != row.want || strings.Contains(err.Error(), "r1") != row.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpstreamCountsAppearOnce checks that the counts of an upstream are not repeated for each of its
// keys.
func TestUpstreamCountsAppearOnce(t *testing.T) {
	t.Parallel()
	of := func(name string, keys ...*genbusv1.UpstreamKeyState) *genbusv1.UpstreamOnReplica {
		return &genbusv1.UpstreamOnReplica{Replica: "r1", Address: "n1:8080", Upstream: &genbusv1.UpstreamState{Name: name, Calls: 7, CallsFailed: 3, Polls: 5, PollsFailed: 2, LastError: "HTTP 503", LastErrorAt: &timestamppb.Timestamp{}, Keys: keys}}
	}
	var out strings.Builder
	err := printer{out: &out}.upstreams(&genbusv1.ListUpstreamsResponse{Upstreams: []*genbusv1.UpstreamOnReplica{
		of("a", &genbusv1.UpstreamKeyState{InHand: 1}),
		of("b", &genbusv1.UpstreamKeyState{Name: "only", InHand: 2}),
		of("c", &genbusv1.UpstreamKeyState{Name: "one", InHand: 3}, &genbusv1.UpstreamKeyState{Name: "two", InHand: 4, MaxConcurrent: 9, Waiting: 6, CooldownUntil: &timestamppb.Timestamp{}, HttpStatus: 401}),
	}})
	const want = `
UPSTREAM  REPLICA  STATE                                                      HELD    WAITING  CALLS FAILED, 5 MIN  POLLS FAILED  LAST FAILURE
a         n1:8080  in use                                                     1       0        3 of 7               2 of 5        HTTP 503, 1970-01-01T00:00:00Z
b/only    n1:8080  in use                                                     2       0        3 of 7               2 of 5        HTTP 503, 1970-01-01T00:00:00Z
c         n1:8080  in use                                                     -       -        3 of 7               2 of 5        HTTP 503, 1970-01-01T00:00:00Z
c/one     n1:8080  in use                                                     3       0        -                    -             -
c/two     n1:8080  key refused (401), last resort until 1970-01-01T00:00:00Z  4 of 9  6        -                    -             -
`
	if diff := cmp.Diff(want[1:], out.String()); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestAnOpenBreakerSaysWhenItRetries checks that the time is relative.
func TestAnOpenBreakerSaysWhenItRetries(t *testing.T) {
	t.Parallel()
	for until, want := range map[time.Duration]string{time.Hour: "breaker open, retries in 3600 s", -time.Hour: "breaker open, retries in 0 s"} {
		u := &genbusv1.UpstreamState{Breaker: genbusv1.UpstreamState_BREAKER_OPEN, OpenUntil: timestamppb.New(time.Now().Add(until))}
		if got := keyState(u, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOrphansFailed checks the output and the exit code.
func TestOrphansFailed(t *testing.T) {
	t.Parallel()
	left := []*genbusv1.OrphanLeft{{Tenant: "acme", Id: "video_x", Reason: "another protocol"}}
	for name, row := range map[string]struct {
		sum  *genbusv1.OrphansSettled
		said string
		code int
	}{
		"none":    {&genbusv1.OrphansSettled{}, "", ExitNotFound},
		"ended":   {&genbusv1.OrphansSettled{Ended: 2}, "2 jobs ended, 0 jobs left\n", 0},
		"removed": {&genbusv1.OrphansSettled{Removed: 1}, "0 jobs ended, 1 work item removed that no job needed, 0 jobs left\n", 0},
		"left":    {&genbusv1.OrphansSettled{Ended: 1, Left: left}, "1 job ended, 1 job left\n", ExitNotPossible},
	} {
		var out strings.Builder
		err := orphansFailCommand{Kind: "video", Name: "gone"}.finish(row.sum, printer{out: &out})
		if (err == nil) != (row.code == 0) || err != nil && ExitCode(err) != row.code || !strings.HasSuffix(out.String(), row.said) {
			t.Errorf("%s: %v, printed\n%s", name, err, out.String())
		}
	}
}

// TestCountsOfOne checks that nouns and verbs agree with their counts.
func TestCountsOfOne(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printer{out: &out}
	err := errors.Join(
		p.overview(&genbusv1.GetOverviewResponse{
			Replicas: 1, Unfinished: 1, IndexAsOf: timestamppb.Now(), DeadLetters: &genbusv1.DeadLetterCounts{Other: 1, Rejected: 1},
			Upstreams: []*genbusv1.UpstreamHealth{{Name: "up", Breaker: genbusv1.UpstreamState_BREAKER_OPEN, BreakersNotClosed: 1}},
		}),
		p.audit(&genbusv1.ListAuditRecordsResponse{Records: []*genbusv1.StoredAuditRecord{{Record: &genbusv1.AuditRecord{Action: "FailOrphans", Outcome: genbusv1.AuditRecord_OUTCOME_DONE, Jobs: 1}}}}),
		p.deadLetter(&genbusv1.StoredDeadLetter{Letter: &genbusv1.DeadLetter{}, DataSize: 1}, false),
		p.jobDetails(&genbusv1.GetJobResponse{WorkItem: &genbusv1.WorkItemPlace{Held: &genbusv1.HeldJob{
			PollsFailed: 1, LastPollErrorAt: timestamppb.Now(), LastPollError: "status 503", CallsFailed: 1, LastCallErrorAt: timestamppb.Now(), LastCallError: "it was not reached",
		}}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 job has not ended", " 1 other,", " 1 rejected request;", " 1 replica;", "(1 replica)", "failed 1 job of ", " 1 byte\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	for _, row := range []string{`polls +the last one failed, at \S+: status 503`, `calls +the last one failed, at \S+: it was not reached`} {
		if !regexp.MustCompile(`\n` + row + `\n`).MatchString(out.String()) {
			t.Errorf("%s is not in\n%s", row, out.String())
		}
	}
	err = orphansFailCommand{Kind: "video", Name: "gone"}.finish(&genbusv1.OrphansSettled{Left: []*genbusv1.OrphanLeft{{}}}, p)
	if err == nil || err.Error() != "1 job of video route gone was left" {
		t.Error(err)
	}
}

// TestAttention checks that each entry is a paragraph, and that missing parts are named instead of
// saying that nothing needs attention.
func TestAttention(t *testing.T) {
	t.Parallel()
	entry := &genbusv1.Attention{
		Reason: genbusv1.Attention_REASON_ROUTE_PAUSED, Subject: "video route film", Since: timestamppb.New(time.Unix(0, 0)),
		Affects: "1 job waits. Paused by ann: a\x1b[2Jb.", Action: "Resume it.", Command: "genbus operator resume video film",
	}
	for want, m := range map[string]*genbusv1.ListAttentionResponse{
		"Nothing needs attention.\n":        {},
		"not available: streams, tenants\n": {Missing: []string{"streams", "tenants"}},
		"route paused: video route film, since 1970-01-01T00:00:00Z\n  1 job waits. Paused by ann: a\uFFFD[2Jb.\n  Resume it.\n  genbus operator resume video film\n\n": {
			Entries: []*genbusv1.Attention{entry},
		},
	} {
		var out strings.Builder
		if err := (printer{out: &out}).attention(m); err != nil || out.String() != want {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

// TestCells checks that control characters cannot leave their cell.
func TestCells(t *testing.T) {
	t.Parallel()
	if got, want := cells("a\x1b[31m\nb\tc", "", "ü"), "a\uFFFD[31m b c\t-\tü"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEachDeadLetter checks that a failure does not stop the others, and that the first failure
// sets the exit code.
func TestEachDeadLetter(t *testing.T) {
	t.Parallel()
	refusal := func(c codes.Code) error { return callError{s: status.New(c, c.String())} }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx   context.Context
		fails map[uint64]error
		tried int
		code  int
		says  string
	}{
		"none":   {t.Context(), nil, 3, 0, "<nil>"},
		"two":    {t.Context(), map[uint64]error{1: refusal(codes.NotFound), 3: refusal(codes.Aborted)}, 3, ExitNotFound, "dead letter 1: NotFound\ndead letter 3: Aborted"},
		"denied": {t.Context(), map[uint64]error{1: refusal(codes.Unauthenticated)}, 1, ExitDenied, "dead letter 1: Unauthenticated\nnot tried: 2 3"},
		"over":   {over, map[uint64]error{2: refusal(codes.DeadlineExceeded)}, 2, ExitUnavailable, "dead letter 2: DeadlineExceeded\nnot tried: 3"},
	} {
		tried := 0
		err := eachDeadLetter(row.ctx, []uint64{1, 2, 3}, func(seq uint64) error {
			tried++
			return row.fails[seq]
		})
		if tried != row.tried || fmt.Sprint(err) != row.says || err != nil && ExitCode(err) != row.code {
			t.Errorf("%s: %d tried, %v", name, tried, err)
		}
	}
}
