package operator

import (
	"bytes"
	"slices"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// refusedMessage returns the dead letter of an inbox message whose model no route serves.
func refusedMessage(b *broker.Broker, pad int) *genbusv1.DeadLetter {
	body := `{"model":"later","prompt":"a dog` + string(bytes.Repeat([]byte(" "), pad)) + `"}`
	return &genbusv1.DeadLetter{
		Kind: "video", Tenant: "acme", Subject: b.Names().Request(subject.Video, "acme"), Data: []byte(body),
		Error: &genbusv1.TaskError{Code: string(errcode.ModelNotFound)}, Headers: []*genbusv1.Header{{Key: "content-type", Values: []string{"application/json"}}},
	}
}

// reject stores a rejected request like the inbox and returns its sequence.
func reject(t *testing.T, r *replica, l *genbusv1.DeadLetter, seq uint64) uint64 {
	t.Helper()
	d := deadletter.Store{Broker: r.o.Broker, Bodies: r.o.Bodies, Metrics: telemetry.NewMetrics("test")}
	if err := d.Reject(t.Context(), l, seq, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	m, err := r.o.Broker.Last(t.Context(), r.o.Broker.Names().Rejected(), ">")
	if err != nil {
		t.Fatal(err)
	}
	return m.Seq
}

// TestRejectedRequestsAreListedAfterJobs checks that pages list rejected requests after the dead
// letters of jobs, across the two streams.
func TestRejectedRequestsAreListedAfterJobs(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t))
		rejected := []uint64{reject(t, r, refusedMessage(r.o.Broker, 0), 1), reject(t, r, refusedMessage(r.o.Broker, 0), 2)}
		job := &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Error: &genbusv1.TaskError{Code: "poisoned"}}
		jobs := []uint64{store(t, r, job, "x"), store(t, r, job, "y")}
		if rejected[0] < subject.FirstRejected {
			t.Errorf("a rejected request has the number %d, which a job's dead letter can have", rejected[0])
		}
		for _, size := range []int{0, 1, 3} {
			if got, _ := r.pages(Query{Size: size}); !slices.Equal(got, append(slices.Clone(jobs), rejected...)) {
				t.Errorf("pages of %d: %v", size, got)
			}
		}
		if got, _ := r.pages(Query{Code: string(errcode.ModelNotFound)}); !slices.Equal(got, rejected) {
			t.Errorf("by code: %v", got)
		}
		for i, l := range r.deadLetters(Query{}) {
			if l.GetRejected() != (i >= len(jobs)) {
				t.Errorf("dead letter %d says rejected: %t", l.GetSequence(), l.GetRejected())
			}
		}
	})
}

// TestOneMessageMakesOneJob checks that a message makes one job, even if a crash before its ack
// left two dead letters.
func TestOneMessageMakesOneJob(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	s, err := b.JetStream().Stream(t.Context(), b.Names().Rejected())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, b, newSandbox(t), withRoute("later"))
	first := reject(t, r, refusedMessage(b, 0), 7)
	await(t, "the second dead letter", func() bool { return reject(t, r, refusedMessage(b, 0), 7) > first })
	ids := map[string]bool{}
	for _, l := range r.deadLetters(Query{}) {
		e, err := r.Redrive(t.Context(), l.GetSequence())
		if err != nil {
			t.Fatal(err)
		}
		ids[e.Job.GetId()] = true
		r.isRemoved(l.GetSequence())
	}
	other, err := r.Redrive(t.Context(), reject(t, r, refusedMessage(b, 0), 8))
	if err != nil || len(ids) != 1 || ids[other.Job.GetId()] {
		t.Errorf("the message made %v, and another one %v, %v", ids, other.Job, err)
	}
}

// TestAMessageThatWasAcceptedAfterItsDeadLetterMakesNoOtherJob checks that redriving a message that
// was accepted on redelivery returns its job.
func TestAMessageThatWasAcceptedAfterItsDeadLetterMakesNoOtherJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		up := newSandbox(t)
		r := newReplica(t, b, up, withRoute("later")).start()
		letter := refusedMessage(b, 0)
		source := admission.ByInbox(b.Names().Requests(), 7, time.Unix(1e9, 0))
		request := admission.Request{Kind: subject.Video, Tenant: "acme", Body: body.Parse(letter.GetData()), Source: &source}
		letter.Id = request.JobID()
		first, err := r.o.Admission.Admit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		r.end(first.Name())
		seq := reject(t, r, letter, 7)
		if e, err := r.Redrive(t.Context(), seq); err != nil || e.Job.GetId() != first.Job.GetId() {
			t.Errorf("redriven as %v, %v", e.Job, err)
		}
		r.isRemoved(seq)
		letter.Data = []byte(`{"model":"later","prompt":"another dog"}`)
		other, err := r.Redrive(t.Context(), reject(t, r, letter, 8))
		if err != nil || other.Job.GetId() == first.Job.GetId() {
			t.Fatalf("a message of another body: %v, %v", other.Job, err)
		}
		r.end(other.Name())
		if n := up.Sandbox.Stats().Creates; n != 2 {
			t.Errorf("%d creates for two requests", n)
		}
	})
}

// TestACutRequestIsNotRedriven checks that a cut request is not redriven, and that its dead letter
// can be shown and dropped.
func TestACutRequestIsNotRedriven(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, newSandbox(t), withRoute("later"))
	l := refusedMessage(b, 300<<10)
	size := uint64(len(l.GetData()))
	seq := reject(t, r, l, 1)
	if shown, err := r.DeadLetter(t.Context(), seq); err != nil || shown.GetDataSize() != size || shown.GetLetter().GetCut().GetSize() != size {
		t.Errorf("the dead letter is shown as %v, %v", shown, err)
	}
	if _, err := r.Redrive(t.Context(), seq); errcode.CodeOf(err) != errcode.DeadLetterUnusable {
		t.Errorf("redriven: %v", err)
	}
	if err := r.Drop(t.Context(), seq); err != nil {
		t.Error(err)
	}
	r.isRemoved(seq)
}
