package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// look is the interval at which tests check a condition.
const look = 10 * time.Millisecond

// eventually waits until a condition on the index holds.
func (r *replica) eventually(what string, holds func() bool) {
	r.t.Helper()
	for range int(patience / look) {
		if holds() {
			return
		}
		if broker.Wait(r.t.Context(), look) != nil {
			break
		}
	}
	r.t.Fatalf("not within %s: %s", patience, what)
}

// describe finds and describes a job.
func (r *replica) describe(m *genbusv1.GetJobRequest) *genbusv1.GetJobResponse {
	r.t.Helper()
	n, err := r.Find(r.t.Context(), m)
	if err != nil {
		r.t.Fatalf("%v: %v", m, err)
	}
	e, err := r.o.Log.Get(r.t.Context(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := r.Describe(r.t.Context(), e)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// TestJobsAreFound checks that jobs are found by filters and by any id, and that their histories
// are complete.
func TestJobsAreFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t)).start()
		video := r.end(r.admit(subject.Video, "film-1", videoBody).Name())
		chat := r.end(r.admit(subject.Chat, "talk 1", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`).Name())
		failed := r.end(r.admit(subject.Video, "film-2", `{"model":"sandbox-video:statuses=in_progress|failed","prompt":"x"}`).Name())
		for _, row := range []struct {
			m    *genbusv1.ListJobsRequest
			want []joblog.Entry
		}{
			{&genbusv1.ListJobsRequest{}, []joblog.Entry{failed, chat, video}},
			{&genbusv1.ListJobsRequest{OldestFirst: true}, []joblog.Entry{video, chat, failed}},
			{&genbusv1.ListJobsRequest{Kind: "chat"}, []joblog.Entry{chat}},
			{&genbusv1.ListJobsRequest{Status: "failed", Labels: []string{"team=a"}}, []joblog.Entry{failed}},
			{&genbusv1.ListJobsRequest{ErrorCode: failed.Job.GetError().GetCode()}, []joblog.Entry{failed}},
			{&genbusv1.ListJobsRequest{Upstream: "sandbox", Phase: "completed", Model: "sandbox-video"}, []joblog.Entry{video}},
			{&genbusv1.ListJobsRequest{Status: "unfinished"}, nil},
			{&genbusv1.ListJobsRequest{Tenant: "globex"}, nil},
			{&genbusv1.ListJobsRequest{Labels: []string{"team=b"}}, nil},
			{&genbusv1.ListJobsRequest{Id: videoOf(video).GetUpstreamTaskId()}, []joblog.Entry{video}},
			{&genbusv1.ListJobsRequest{Id: "talk 1", Tenant: "acme"}, []joblog.Entry{chat}},
			{&genbusv1.ListJobsRequest{Id: "film-2"}, []joblog.Entry{failed}},
			{&genbusv1.ListJobsRequest{Id: chat.Job.GetId()[:12]}, []joblog.Entry{chat}},
			{&genbusv1.ListJobsRequest{CreatedAfter: chat.Job.GetCreatedAt()}, []joblog.Entry{failed, chat}},
			{&genbusv1.ListJobsRequest{UpdatedBefore: timestamppb.New(video.Job.GetCreatedAt().AsTime())}, nil},
		} {
			var got *genbusv1.ListJobsResponse
			var err error
			r.eventually(fmt.Sprintf("%v are found", row.m), func() bool {
				got, err = r.Search(t.Context(), row.m)
				return err != nil || asLogged(got.GetJobs(), row.want)
			})
			if err != nil || got.GetTotal() != int64(len(row.want)) || !got.GetTotalExact() || got.GetCompleteSince() != nil || !got.GetAsOf().IsValid() {
				t.Errorf("%v: %v, %v", row.m, got, err)
			}
		}
		if got, err := r.Search(t.Context(), &genbusv1.ListJobsRequest{Kind: "video", Status: "failed"}); err != nil || !maps.Equal(got.GetByStatus(), map[string]int64{"completed": 1, "failed": 1}) {
			t.Errorf("by status %v, %v", got.GetByStatus(), err)
		}
		for _, m := range []*genbusv1.GetJobRequest{
			{Id: video.Job.GetId()}, {Id: video.Job.GetId(), Tenant: "acme", Kind: "video"}, {Id: videoOf(video).GetUpstreamTaskId()}, {Id: "film-1", Tenant: "acme"},
			{Id: "film-1"}, {Id: video.Job.GetId()[:12]}, {Id: video.Job.GetId()[:12], Tenant: "acme"},
		} {
			got := r.describe(m)
			if !proto.Equal(got.GetJob(), summaryOfEntry(video)) || got.GetRequestId() != "film-1" || got.GetWorkItem() != nil && got.GetWorkItem().GetState() != genbusv1.WorkItemPlace_STATE_IN_HAND {
				t.Errorf("%v is %v", m, got)
			}
			history := r.history(video.Name())
			if len(got.GetHistory()) != len(history) || got.GetHistoryCut() {
				t.Fatalf("%d of %d events", len(got.GetHistory()), len(history))
			}
			for i, h := range got.GetHistory() {
				if h.GetVersion() != uint64(i+1) || h.GetStatus() != history[i].Job.GetStatus() || (i > 0) != (h.GetSincePrevious() != nil) || h.GetSequence() == 0 || h.GetHeaders()[subject.HeaderCEID] == "" {
					t.Errorf("event %d is %v", i, h)
				}
			}
			if last := got.GetHistory()[len(history)-1]; last.GetUpstream() != "sandbox" || last.GetAttempt() != 1 || last.GetReplica() != r.o.Log.Writer() || last.GetProgress() != 100 {
				t.Errorf("the end is %v", last)
			}
		}
		if got := r.describe(&genbusv1.GetJobRequest{Id: failed.Job.GetId()}); got.GetError().GetCode() != failed.Job.GetError().GetCode() {
			t.Errorf("%v", got)
		}
		if err := r.Erase(t.Context(), chat.Name()); err != nil {
			t.Fatal(err)
		}
		r.eventually("an erased job is not found", func() bool {
			got, err := r.Search(t.Context(), &genbusv1.ListJobsRequest{Kind: "chat"})
			return err == nil && got.GetTotal() == 0
		})
		for _, m := range []*genbusv1.GetJobRequest{{Id: chat.Job.GetId()}, {Id: "talk 1", Tenant: "acme"}, {Id: "nothing"}, {Id: "video_"}, {Id: "film-1", Tenant: "globex"}} {
			if n, err := r.Find(t.Context(), m); errcode.CodeOf(err) != errcode.NotFound {
				t.Errorf("%v is %v, %v", m, n, err)
			}
		}
	})
}

// asLogged reports whether the index lists these jobs, in this order, as the log has them.
func asLogged(jobs []*genbusv1.JobSummary, logged []joblog.Entry) bool {
	return slices.EqualFunc(jobs, logged, func(j *genbusv1.JobSummary, e joblog.Entry) bool { return proto.Equal(j, summaryOfEntry(e)) })
}

// TestWaitingJobsHaveAPlace checks that a waiting job shows how many jobs of its route are ahead.
func TestWaitingJobsHaveAPlace(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t), func(c *config.Config) { // takes no work
			for i := range c.Routes {
				c.Routes[i].ReadyJobs = 1
			}
		})
		for i := range 4 {
			e := r.admit(subject.Video, fmt.Sprint("film-", i), videoBody)
			got := r.describe(&genbusv1.GetJobRequest{Id: e.Job.GetId()})
			want := &genbusv1.WorkItemPlace{State: genbusv1.WorkItemPlace_STATE_READY, Since: got.GetWorkItem().GetSince()}
			if i > 0 {
				want.State, want.Ahead = genbusv1.WorkItemPlace_STATE_WAITING, uint64(i-1)
			}
			if !proto.Equal(got.GetWorkItem(), want) || !want.GetSince().IsValid() || got.GetStartBy() == nil || got.GetEndBy() != nil {
				t.Errorf("job %d: %v", i, got)
			}
		}
	})
}

// TestAJobThatWaitsForAKeyNamesItsHolder checks a job whose replica has nothing to write yet.
func TestAJobThatWaitsForAKeyNamesItsHolder(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t), func(c *config.Config) {
		u := c.Upstreams[config.SandboxUpstream]
		u.MaxConcurrent = 1
		c.Upstreams[config.SandboxUpstream] = u
	}).start()
	running := r.admit(subject.Video, "film-1", `{"model":"sandbox-video:duration_ms=600000","prompt":"x"}`)
	r.until(running.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	waiting := r.admit(subject.Video, "film-2", videoBody)
	r.eventually("its place names the holder", func() bool {
		at := r.describe(&genbusv1.GetJobRequest{Id: waiting.Job.GetId()}).GetWorkItem()
		return at.GetState() == genbusv1.WorkItemPlace_STATE_READY && at.GetHolder() == r.o.Log.Writer() && !at.GetReplicaGone()
	})
	for _, e := range []joblog.Entry{running, waiting} {
		r.cancel(e)
	}
}

// TestAHeldJobNamesItsHolder checks that the holder reports its failing polls, and that the last
// writer counts as gone if no replica answers.
func TestAHeldJobNamesItsHolder(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t)).start()
	e := r.admit(subject.Video, "film-1", `{"model":"sandbox-video:poll_status=503","prompt":"x"}`)
	me := r.o.Log.Writer()
	var got *genbusv1.WorkItemPlace
	r.eventually("polls fail", func() bool {
		got = r.describe(&genbusv1.GetJobRequest{Id: e.Job.GetId()}).GetWorkItem()
		return got.GetHeld().GetPollsFailed() > 1
	})
	if held := got.GetHeld(); got.GetReplica() != me || got.GetHolder() != me || got.GetReplicaGone() || !held.GetLastPollErrorAt().IsValid() || !strings.HasPrefix(held.GetLastPollError(), "status 503, code ") {
		t.Errorf("the place is %v", got)
	}
	r.Fleet = fleet.New(fleet.Options{Alone: true, Self: "another", Held: func(string) *genbusv1.HeldJob { return nil }})
	got = r.describe(&genbusv1.GetJobRequest{Id: e.Job.GetId()}).GetWorkItem()
	if got.GetReplica() != me || got.GetHolder() != "" || !got.GetReplicaGone() || got.GetHeld() != nil {
		t.Errorf("without the holder the place is %v", got)
	}
	r.Fleet = fleet.New(fleet.Options{Alone: true, Self: "another", Held: func(string) *genbusv1.HeldJob { return &genbusv1.HeldJob{} }})
	got = r.describe(&genbusv1.GetJobRequest{Id: e.Job.GetId()}).GetWorkItem()
	if got.GetReplica() != me || got.GetHolder() != "another" || got.GetReplicaGone() {
		t.Errorf("with another holder the place is %v", got)
	}
}

// TestJobsOfOneIDAreNamed checks that the error for an ambiguous id lists the jobs.
func TestJobsOfOneIDAreNamed(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	first := r.admit(subject.Video, "same", videoBody)
	second := r.admit(subject.Chat, "same", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`)
	r.eventually("both are in the index", func() bool {
		_, err := r.Find(t.Context(), &genbusv1.GetJobRequest{Id: "same", Tenant: "acme"})
		return errcode.CodeOf(err) == errcode.InvalidRequest && strings.Contains(err.Error(), first.Job.GetId()+" of acme") && strings.Contains(err.Error(), second.Job.GetId()+" of acme")
	})
	if n, err := r.Find(t.Context(), &genbusv1.GetJobRequest{Id: "same", Kind: "chat"}); err != nil || n != second.Name() {
		t.Errorf("%v, %v", n, err)
	}
}

// TestWrongFiltersAreRefused checks that an error names each invalid filter field.
func TestWrongFiltersAreRefused(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	for field, m := range map[string]*genbusv1.ListJobsRequest{
		"kind": {Kind: "audio"}, "tenant": {Tenant: "a b"}, "status": {Status: "done"}, "phase": {Phase: "unfinished"}, "labels": {Labels: []string{"team"}},
		"page_size": {PageSize: -1}, "route": {Route: strings.Repeat("x", 2000)}, "created_after": {CreatedAfter: &timestamppb.Timestamp{Nanos: -1}},
	} {
		if _, err := r.Search(t.Context(), m); errcode.CodeOf(err) != errcode.InvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v", m, err)
		}
	}
	if _, err := r.Search(t.Context(), &genbusv1.ListJobsRequest{PageToken: "x"}); errcode.CodeOf(err) != errcode.InvalidPageToken {
		t.Errorf("%v", err)
	}
	for field, m := range map[string]*genbusv1.GetJobRequest{"id": {}, "kind": {Id: "x", Kind: "audio"}, "tenant": {Id: "x", Tenant: "a b"}} {
		if _, err := r.Find(t.Context(), m); errcode.CodeOf(err) != errcode.InvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestALogThatDoesNotAnswerSaysSo checks that an unavailable log does not count as a missing job.
func TestALogThatDoesNotAnswerSaysSo(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := r.Find(ctx, &genbusv1.GetJobRequest{Id: subject.JobID(subject.Video, "acme", "x")}); err == nil || errcode.CodeOf(err) == errcode.NotFound || n != (subject.JobName{}) {
		t.Errorf("%v, %v", n, err)
	}
}
