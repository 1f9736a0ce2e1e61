package operator

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestADeadLetterIsLookedUp checks that an upstream finds a task by our id and that Attach uses the
// result.
func TestADeadLetterIsLookedUp(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up).start()
	const request = `{"model_name":"sandbox-kling","prompt":"a cat","image":"https://x.example/a.png"}` // needs another path to be read
	e := r.admit(subject.Video, "k", request)
	v := videoOf(r.end(e.Name()))
	if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetExecution().GetOwnTaskId() == "" {
		t.Fatalf("the job is %v", v)
	}
	letter := deadletter.FromJob(deadletter.WorkItemFromLog(v), v, errcode.New(errcode.SubmissionUnknown, "lost"))
	letter.UpstreamTaskId, letter.Data = "", []byte(request)
	store := deadletter.Store{Broker: r.o.Broker, Bodies: r.o.Bodies, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
	put := func(occasion string) uint64 {
		t.Helper()
		if err := store.Put(t.Context(), letter, v.GetId(), occasion); err != nil {
			t.Fatal(err)
		}
		return r.deadLetterOf(v.GetId()).GetSequence()
	}
	seq := put("lost")
	found, err := r.LookUp(t.Context(), seq)
	if err != nil || found.GetResult() != genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND || found.GetUpstreamTaskId() != v.GetUpstreamTaskId() {
		t.Errorf("looked up %v, %v", found, err)
	}
	attached, err := r.Attach(t.Context(), seq, "")
	if err != nil {
		t.Fatal(err)
	}
	if end := videoOf(r.end(attached.Name())); end.GetUpstreamTaskId() != v.GetUpstreamTaskId() || end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || up.Sandbox.Stats().Creates != 1 {
		t.Errorf("the attached job is %v", end)
	}

	letter.OwnTaskId = "video_other-1"
	seq = put("other")
	if found, err = r.LookUp(t.Context(), seq); err != nil || found.GetResult() != genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE {
		t.Errorf("of one that is not there: %v, %v", found, err)
	}
	if _, err := r.Attach(t.Context(), seq, ""); errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Errorf("attached to what is not there: %v", err)
	}
}
