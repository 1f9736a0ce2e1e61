package consumer

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/subject"
)

// TestAnUploadGoesWithItsMessage proves that the upload of an accepted request is removed and that
// of a refused one kept, and that resending the accepted request inline attaches.
func TestAnUploadGoesWithItsMessage(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	id := publish(t, b, subject.Video, "good", jobtest.Upload(t, b, "good", "sandbox-video"))
	refused := publish(t, b, subject.Video, "bad", jobtest.Upload(t, b, "bad", "no-such-model"))
	if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
	if end := last(follow(t, r.log, refused)); end.Job.GetError().GetCode() != "model_not_found" {
		t.Errorf("ended %v", end.Job.GetError())
	}
	r.eventually(t, "the accepted one's upload is gone, and only that", func() bool {
		left := brokertest.Uploads(t, b.JetStream(), "acme")
		return len(left) == 1 && left[0] == "upload-bad"
	})
	publish(t, b, subject.Video, "good", videoRequest("good", "sandbox-video", "a cat"))
	r.eventually(t, "the inbox is empty", func() bool { return jobtest.UnsettledRequests(t, b) == 0 })
	if letters := deadLetters(t, b); len(letters) != 1 || letters[0].GetId() != refused || up.Sandbox.Stats().Creates != 1 {
		t.Errorf("%d creates, dead letters %v", up.Sandbox.Stats().Creates, letters)
	}
}

// TestALostUploadIsADeadLetter proves that a request without its upload becomes a dead letter.
func TestALostUploadIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	m := jobtest.Upload(t, b, "lost", "sandbox-video")
	m.GetStored().Name += "-no"
	publish(t, b, subject.Video, "lost", m)
	if letters := awaitDeadLetters(t, b, 1); letters[0].GetError().GetCode() != "input_lost" || len(letters[0].GetData()) == 0 {
		t.Errorf("dead letters: %v", letters)
	}
}
