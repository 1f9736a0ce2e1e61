package consumer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

func tryVideo(t testing.TB, r *replica, tenant, requestID, model string) (joblog.Entry, error) {
	t.Helper()
	return r.Admission.Admit(t.Context(), admission.Request{
		Kind: subject.Video, Tenant: tenant, RequestID: requestID, Body: body.Parse([]byte(`{"model":"` + model + `","prompt":"a cat"}`)),
	})
}

// resolveDeadLetters removes all dead letters of jobs, as an operator may.
func resolveDeadLetters(t testing.TB, b *broker.Broker) {
	t.Helper()
	for {
		m, err := b.Next(t.Context(), b.Names().Dead(), b.Names().DeadPattern(), 1)
		if err != nil {
			return
		}
		if _, err := b.Delete(t.Context(), b.Names().Dead(), m.Seq); err != nil {
			t.Fatal(err)
		}
	}
}

// TestATenantAtItsBoundOfDeadLetters proves that no video of a tenant at its limit of dead letters
// is submitted, while other tenants' are. Ready videos fail, and waiting ones continue once dead
// letters are resolved.
func TestATenantAtItsBoundOfDeadLetters(t *testing.T) {
	t.Parallel()
	const bound, queued, ready = 2, 12, 4
	up, b := newSandbox(t), brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Limits.Tenant.MaxDeadLetters = bound },
		videoRoutes(func(r *config.Route) { r.MaxInFlight, r.ReadyJobs = 1, ready })))
	for i := range bound {
		if _, err := tryVideo(t, r, "acme", fmt.Sprint("unknown-", i), "sandbox-video:drop=after_create"); err != nil {
			t.Fatal(err)
		}
	}
	var waiting []joblog.Entry
	for i := range queued {
		e, err := tryVideo(t, r, "acme", fmt.Sprint("waits-", i), "sandbox-video:duration_ms=1")
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, e)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "the tenant at its bound", func() bool { return countOn(t, b, b.Names().Dead(), ">") == bound })
	_, err := tryVideo(t, r, "acme", "refused", "sandbox-video")
	if f := errcode.From(err); f == nil || f.Code != errcode.DeadLettersFull || f.RetryAfter == 0 {
		t.Errorf("a new request of the tenant: %v", err)
	}
	for i := range 3 {
		e, err := tryVideo(t, r, "other", fmt.Sprint(i), "sandbox-video:duration_ms=1")
		if err != nil {
			t.Fatal(err)
		}
		r.eventually(t, "the other tenant's video", func() bool {
			e, err := r.log.Get(t.Context(), e.Name())
			return err == nil && e.Terminal()
		})
	}
	if n := up.Sandbox.Stats().Creates; n != bound+3 {
		t.Errorf("%d creates, want %d", n, bound+3)
	}
	failed := 0
	waiting = slices.DeleteFunc(waiting, func(e joblog.Entry) bool {
		now, err := r.log.Get(t.Context(), e.Name())
		switch {
		case err == nil && now.Job.GetError().GetCode() == string(errcode.DeadLettersFull):
			failed++
			doneOnce(t, b, now)
			return true
		case err != nil || now.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED:
			t.Errorf("a job that waits is %v, %v", now.Job, err)
		}
		return false
	})
	if failed > ready+1 {
		t.Errorf("%d jobs failed, and %d could be ready or held", failed, ready+1)
	}
	if n := countOn(t, b, b.Names().Dead(), ">"); n != bound {
		t.Errorf("%d dead letters; one that was never submitted needs none", n)
	}
	resolveDeadLetters(t, b)
	for _, e := range waiting {
		if end := last(follow(t, r.log, e.Job.GetId())); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("%s ended %v", e.Job.GetId(), end.Job.GetError())
		}
	}
	if n := up.Sandbox.Stats().Creates; n != int64(bound+3+len(waiting)) {
		t.Errorf("%d creates in the end, want %d", n, bound+3+len(waiting))
	}
}

// TestOpenSubmissionsEndNoVideo proves that a video waits if running submissions fill up its
// tenant's limit of dead letters, and fails if stored ones do, unless it was made from a dead
// letter.
func TestOpenSubmissionsEndNoVideo(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, up.URL(), boundOf(2)))
	putLetter := func(id string) {
		letter := &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Id: id, Error: &genbusv1.TaskError{Code: "poisoned"}}
		if err := r.holder.DeadLetters.Put(t.Context(), letter, id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	putLetter("old")
	waits, err := tryVideo(t, r, "acme", "waits", "sandbox-video:duration_ms=1")
	if err != nil {
		t.Fatal(err)
	}
	reserve := r.videos.ReserveDeadLetter
	release, err := reserve(t.Context(), "acme") // a running submission
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 1)
	r.videos.ReserveDeadLetter = func(ctx context.Context, tenant string) (func(), error) {
		release, err := reserve(ctx, tenant)
		if errcode.CodeOf(err) == errcode.DeadLettersFull {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		return release, err
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the held video to be refused", refused)
	release()
	if end := last(follow(t, r.log, waits.Job.GetId())); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("held while a submission was under way, it ended %v", end.Job.GetError())
	}
	putLetter("new")
	redriven := itemOf("redriven", config.SandboxVideoRoute, "a cat")
	redriven.RetryOf = videoID("old")
	putItem(t, b, redriven)
	// Admitted by a replica that did not know of the dead letter.
	ends := storeItem(t, b, config.SandboxVideoRoute, videoID("ends"), 0)
	end := last(follow(t, r.log, ends.GetId()))
	if end.Job.GetError().GetCode() != string(errcode.DeadLettersFull) || up.Sandbox.Stats().Creates != 1 {
		t.Errorf("at its bound it ended %v after %d creates", end.Job, up.Sandbox.Stats().Creates)
	}
	doneOnce(t, b, end)
	if n := countOn(t, b, b.Names().Dead(), ">"); n != 2 {
		t.Errorf("%d dead letters; one that was never submitted leaves none", n)
	}
	if e, err := r.log.Get(t.Context(), joblog.NameOf(redriven)); err != nil || e.Terminal() {
		t.Errorf("the video that was made of a dead letter is %v, %v", e.Job, err)
	}
	resolveDeadLetters(t, b)
	if end := last(follow(t, r.log, redriven.GetId())); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("the video that was made of a dead letter ended %v", end.Job.GetError())
	}
}

// TestTheStreamOfDeadLettersNearlyFull proves that a nearly full stream of dead letters stops
// submissions while submitted jobs still have capacity.
func TestTheStreamOfDeadLettersNearlyFull(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	up, b := newSandbox(t), brokertest.SingleLimited(t, broker.Limits{DeadMaxBytes: 4 << 20})
	r := idleReplica(t, b, testConfig(t, up.URL()))
	letter := &genbusv1.DeadLetter{Kind: "video", Tenant: "old", Data: garbage(size), Error: &genbusv1.TaskError{Code: "poisoned"}}
	put := func(id string, count int) {
		for i := range count {
			if err := r.holder.DeadLetters.Put(t.Context(), letter, fmt.Sprint(id, i), "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("job", 6)
	if _, err := tryVideo(t, r, "acme", "one", "sandbox-video"); err != nil {
		t.Fatalf("with room for more: %v", err)
	}
	put("more", 6)
	tries := 0
	r.eventually(t, "a refusal", func() bool {
		tries++
		_, err := tryVideo(t, r, "acme", fmt.Sprint("more", tries), "sandbox-video")
		return errcode.CodeOf(err) == errcode.DeadLettersFull
	})
	if err := r.holder.DeadLetters.Put(t.Context(), letter, "in-work", "x"); err != nil {
		t.Errorf("the dead letter of a job in work has no room: %v", err)
	}
	if n := countOn(t, b, b.Names().Dead(), b.Names().DeadLetter(subject.Video, "old", "job0")); n != 1 {
		t.Error("a dead letter of a job was pushed out")
	}
}

// boundOf sets each tenant's limit of dead letters.
func boundOf(letters int) func(*config.Config) {
	return func(c *config.Config) { c.Limits.Tenant.MaxDeadLetters = letters }
}
