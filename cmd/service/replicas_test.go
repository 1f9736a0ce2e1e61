package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// shortWait is the shortest ack_wait of a route.
const shortWait = 3 * time.Second

func oneVideo(requestID string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{RequestId: requestID, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{"model":"sandbox-video","prompt":"a cat"}`)}}
}

func oneChat(requestID string) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{RequestId: requestID, Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(
		`{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"tell me of the sea"}]}`)}}
}

// TestStoppedWhileItPolls proves that a task ends once if its holder is stopped for longer than
// ack_wait, another replica polls too, and the former holder resumes.
func TestStoppedWhileItPolls(t *testing.T) {
	t.Parallel()
	for name, endsWhileStopped := range map[string]bool{"ends while it is stopped": true, "ends while both poll": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := newBed(t), newHandUpstream(t)
			first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
			n := b.send(subject.Video, "v", oneVideo("v"))
			b.awaitPhase(n, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
			second := b.start(memberOptions{upstream: up.url + "/second", ackWait: shortWait})
			mustDo(t, first.Stop)
			up.more(b, "polls", up.polls, "second")
			if endsWhileStopped {
				up.complete()
				b.awaitEnd(n)
				mustDo(t, first.Continue)
			} else {
				mustDo(t, first.Continue)
				up.more(b, "polls", up.polls, "first")
				up.more(b, "polls", up.polls, "second")
				up.complete()
			}
			b.awaitEnd(n)
			first.holdsNothing()
			second.holdsNothing()
			b.endedOnce(n, "completed")
			if sent := up.sent(); len(sent) != 1 || sent[0].by != "first" {
				t.Errorf("POSTs: %v", sent)
			}
		})
	}
}

// stopBeforePost stops a replica after its "submitting" commit is stored and before it receives the
// ack, which its link holds back.
func stopBeforePost(b *bed, m *member, n subject.JobName) (submitUntil time.Time) {
	b.t.Helper()
	m.link.HoldAnswers([]byte(subject.HeaderVersion + ": 2\r\n")) // submitting follows queued
	type stop struct {
		until time.Time
		err   error
	}
	stopped := make(chan stop, 1)
	sub, err := b.nc.Subscribe(b.names.LiveTask(n.Kind, n.Tenant, n.ID), func(msg *nats.Msg) {
		e, err := publisher.DecodeEvent(n.Kind, msg.Header, msg.Data)
		if err == nil && e.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			return
		}
		err = errors.Join(err, m.Stop())
		select {
		case stopped <- stop{e.Job.GetExecution().GetSubmitUntil().AsTime(), err}:
		default:
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	mustDo(b.t, b.nc.Flush)
	if got := b.send(n.Kind, "v", oneVideo("v")); got != n {
		b.t.Fatalf("sent %v", got)
	}
	select {
	case s := <-stopped:
		if s.err != nil {
			b.t.Fatal(s.err)
		}
		submitUntil = s.until
	case <-time.After(bedPatience):
		b.t.Fatal("nothing was submitted")
	}
	mustDo(b.t, sub.Unsubscribe)
	m.link.ReleaseAnswers()
	return submitUntil
}

// TestStoppedBetweenCommitAndPost proves that a process stopped between its "submitting" commit and
// the request does not send the request after submit_until.
func TestStoppedBetweenCommitAndPost(t *testing.T) {
	t.Parallel()
	name := subject.JobName{Kind: subject.Video, Tenant: "default", ID: subject.JobID(subject.Video, "default", "request\x00v")}
	t.Run("another replica decides", func(t *testing.T) {
		t.Parallel()
		b, up := newBed(t), newHandUpstream(t)
		up.complete()
		first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
		until := stopBeforePost(b, first, name)
		second := b.start(memberOptions{upstream: up.url + "/second", ackWait: shortWait})
		end := b.awaitEnd(name)
		if end.Job.GetError().GetCode() != "submission_outcome_unknown" || end.Time.Before(until) {
			t.Errorf("ended %v at %s, submit_until was %s", end.Job.GetError(), end.Time, until)
		}
		mustDo(t, first.Continue)
		first.holdsNothing()
		second.holdsNothing()
		b.endedOnce(name, "failed")
		if sent := up.sent(); len(sent) != 0 {
			t.Errorf("POSTs: %v", sent)
		}
	})
	t.Run("it goes on itself", func(t *testing.T) {
		t.Parallel()
		b, up := newBed(t), newHandUpstream(t)
		up.complete()
		first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
		until := stopBeforePost(b, first, name)
		if err := broker.Wait(t.Context(), time.Until(until)); err != nil { // let submit_until pass
			t.Fatal(err)
		}
		mustDo(t, first.Continue)
		b.awaitEnd(name)
		first.holdsNothing()
		b.endedOnce(name, "completed")
		events, err := b.events(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := phaseWords(events); !strings.HasPrefix(got, "queued submitting queued submitting submitted") {
			t.Fatalf("phases: %s", got)
		}
		sent, again := up.sent(), events[3]
		if len(sent) != 1 || sent[0].at.Before(again.Time) || sent[0].at.After(again.Job.GetExecution().GetSubmitUntil().AsTime()) {
			t.Errorf("POSTs %v; submitting at %s until %s", sent, again.Time, again.Job.GetExecution().GetSubmitUntil().AsTime())
		}
	})
}

// stopBeforeLog stops a replica after a job's work item is stored and before it receives the ack,
// so that the first event is not written yet. send sends the request.
func stopBeforeLog(b *bed, m *member, n subject.JobName, send func()) {
	b.t.Helper()
	m.link.HoldAnswers([]byte(b.names.WorkItem(n.Kind, "video", "default", n.ID)))
	send()
	b.until("the work item is stored", func(context.Context) error {
		if b.hasItem(n) {
			return nil
		}
		return errors.New("it is not")
	})
	mustDo(b.t, m.Stop)
	m.link.ReleaseAnswers()
}

// TestStoppedBetweenItemAndLog proves that another replica finishes a job if its replica is stopped
// during admission.
func TestStoppedBetweenItemAndLog(t *testing.T) {
	t.Parallel()
	n := subject.JobName{Kind: subject.Video, Tenant: "default", ID: subject.JobID(subject.Video, "default", "request\x00v")}
	t.Run("a request of the inbox", func(t *testing.T) {
		t.Parallel()
		b, up := newBed(t), newHandUpstream(t)
		up.complete()
		first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
		stopBeforeLog(b, first, n, func() { b.send(n.Kind, "v", oneVideo("v")) })
		second := b.start(memberOptions{upstream: up.url + "/second", ackWait: shortWait})
		b.awaitEnd(n)
		mustDo(t, first.Continue)
		first.holdsNothing()
		second.holdsNothing()
		b.endedOnce(n, "completed")
		if sent := up.sent(); len(sent) != 1 {
			t.Errorf("POSTs: %v", sent)
		}
	})
	t.Run("and erases it", func(t *testing.T) {
		t.Parallel()
		b, up := newBed(t), newHandUpstream(t)
		up.complete()
		first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
		answers := make(chan response, 1)
		stopBeforeLog(b, first, n, func() {
			go func() {
				r, err := first.do(t.Context(), http.MethodPost, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`, "Idempotency-Key", "v")
				if err != nil {
					r.body = err.Error()
				}
				answers <- r
			}()
		})
		second := b.start(memberOptions{upstream: up.url + "/second", ackWait: shortWait})
		b.awaitEnd(n)
		b.until("it is erased", func(ctx context.Context) error {
			r, err := second.do(ctx, http.MethodDelete, "/genbus/v1/videos/"+n.ID, "")
			if err == nil && r.status != http.StatusOK {
				err = fmt.Errorf("%d: %s", r.status, r.body)
			}
			return err
		})
		mustDo(t, first.Continue)
		r := <-answers // the job may have been accepted, or it has ended
		first.holdsNothing()
		events, err := b.events(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if last := len(events) - 1; last >= 0 && events[last].Job.GetError().GetCode() != "not_enqueued" {
			t.Errorf("an erased job is back: %s; its caller was told %d %s", phaseWords(events), r.status, r.body)
		}
		if sent := up.sent(); len(sent) != 1 {
			t.Errorf("POSTs: %v", sent)
		}
	})
}

// TestStoppedInAChat proves that a stopped holder that resumes during another replica's second
// attempt has its call cut, and leaves the work item to the other replica.
func TestStoppedInAChat(t *testing.T) {
	t.Parallel()
	b, up := newBed(t), newHandUpstream(t)
	first := b.start(memberOptions{upstream: up.url + "/first", ackWait: shortWait})
	n := b.send(subject.Chat, "c", oneChat("c"))
	b.until("the first call", func(context.Context) error {
		if up.of(up.streaming, "first") == 1 {
			return nil
		}
		return fmt.Errorf("POSTs %v", up.sent())
	})
	second := b.start(memberOptions{upstream: up.url + "/second", ackWait: shortWait})
	mustDo(t, first.Stop)
	b.until("the second call", func(context.Context) error {
		if up.of(up.streaming, "second") == 1 {
			return nil
		}
		return fmt.Errorf("POSTs %v", up.sent())
	})
	mustDo(t, first.Continue)
	b.until("the first call is cut", func(context.Context) error {
		if up.of(up.cut, "first") == 1 {
			return nil
		}
		return fmt.Errorf("POSTs %v", up.sent())
	})
	first.holdsNothing()
	if !b.hasItem(n) {
		t.Error("the loser acknowledged the winner's work item")
	}
	close(up.release)
	end := b.awaitEnd(n)
	second.holdsNothing()
	b.endedOnce(n, "completed")
	c, _ := end.Job.(*genbusv1.Chat)
	if c.GetAttempt() != 2 || !strings.Contains(string(c.GetReplyJson()), "by second") || len(up.sent()) != 2 || up.of(up.cut, "second") != 0 {
		t.Errorf("attempt %d, reply %s, POSTs %v", c.GetAttempt(), c.GetReplyJson(), up.sent())
	}
}

// TestAKilledHolderIsShown proves that an operator sees that the holder of a job does not answer,
// and later which replica holds the job.
func TestAKilledHolderIsShown(t *testing.T) {
	t.Parallel()
	b, up := newBed(t), newHandUpstream(t)
	o := memberOptions{upstream: up.url + "/first", ackWait: 2 * shortWait, more: fmt.Sprintf("operator_keys: [{name: ops, key_sha256: %x}]\n", sha256.Sum256([]byte(opsKey)))}
	first := b.start(o)
	n := b.send(subject.Video, "v", oneVideo("v"))
	b.awaitPhase(n, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	second := b.start(o)
	c := operatorCommand{t: t, server: second.grpc, key: opsKey}
	shows := func(pattern string) {
		t.Helper()
		looks := regexp.MustCompile(`\nwork item +held since \S+Z by replica (\S+:\d+)` + pattern + `\n`)
		await(t, pattern, func() bool { return looks.MatchString(c.ok("jobs", "show", n.ID)) })
	}
	shows("")
	mustDo(t, first.Kill)
	shows(`, which does not answer \(last seen at \S+Z\); no replica reports .*`)
	shows(`; replica \S+:\d+ holds it now`)
	up.complete()
	b.awaitEnd(n)
}
