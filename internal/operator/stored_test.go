package operator

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestRedriveOfAStoredRequest checks that the upload named in a rejected message is read again and
// removed with the dead letter.
func TestRedriveOfAStoredRequest(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up).start()
	whole := &genbusv1.VideoRequest{
		RequestId: "spent", Labels: map[string]string{"x": "y"}, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{"model":"later","prompt":"a dog"}`)},
	}
	ref := brokertest.Upload(t, b.JetStream(), "acme", "refused", whole)
	m := nats.NewMsg(b.Names().Request(subject.Video, "acme"))
	m.Data = marshal(t, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}})
	r.request(m)
	await(t, "the dead letter", func() bool { return len(r.deadLetters(Query{})) == 1 })
	l := r.deadLetters(Query{})[0]
	if want := subject.JobID(subject.Video, "acme", "request\x00spent"); l.GetLetter().GetId() != want {
		t.Errorf("the dead letter names %s, not the job of the stored request id", l.GetLetter().GetId())
	}
	if _, err := r.Redrive(t.Context(), l.GetSequence()); errcode.CodeOf(err) != errcode.ModelNotFound {
		t.Fatalf("without a route: %v", err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 1 {
		t.Fatalf("the next redrive has nothing to read: %v", left)
	}
	later := newReplica(t, b, up, withRoute("later")).start()
	e, err := later.Redrive(t.Context(), l.GetSequence())
	if err != nil || e.Job.GetLabels()["x"] != "y" || e.Job.GetRequestId() != "" || videoOf(e).GetRetryOf() != l.GetLetter().GetId() {
		t.Fatalf("%v, %v", e.Job, err)
	}
	if end := later.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
	later.isRemoved(l.GetSequence())
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestRedriveWithoutTheUpload checks that the error names the missing upload and that the dead
// letter stays.
func TestRedriveWithoutTheUpload(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up)
	ref := &genbusv1.BlobRef{Name: "upload-gone", Size: 1, Sha256: make([]byte, 32)}
	seq := reject(t, r, &genbusv1.DeadLetter{
		Kind: "video", Tenant: "acme", Subject: b.Names().Request(subject.Video, "acme"),
		Data: marshal(t, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}),
	}, 1)
	if _, err := r.Redrive(t.Context(), seq); errcode.CodeOf(err) != errcode.DeadLetterUnusable || !strings.Contains(err.Error(), "the tenant's object store no longer has") {
		t.Errorf("%v", err)
	}
	if _, err := r.DeadLetter(t.Context(), seq); err != nil {
		t.Errorf("the dead letter is gone: %v", err)
	}
}
