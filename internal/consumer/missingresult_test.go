package consumer

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestASuccessWithoutAResult proves that a job whose upstream reports success without a result is
// polled again. It completes with the result that follows, or fails with the upstream's text when
// the wait is over.
func TestASuccessWithoutAResult(t *testing.T) {
	t.Parallel()
	const missing = `{"code":"success","data":{"task_id":"up_1","status":"SUCCESS","fail_reason":"withheld by review","result_url":""}}`
	for name, c := range map[string]struct {
		later string // the answers to later polls
		wait  time.Duration
		polls int64 // at least
		code  string
	}{
		"the result follows":    {`{"task_id":"up_1","status":"completed","url":"https://example.com/v.mp4"}`, time.Hour, 3, ""},
		"the failure follows":   {`{"task_id":"up_1","status":"failed","error":{"message":"withheld by review"}}`, time.Hour, 3, "upstream_failed"},
		"the result never came": {missing, 500 * time.Millisecond, 2, "upstream_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			var polls atomic.Int64
			url := scripted(t, map[string]http.HandlerFunc{
				createPath: respond(`{"task_id":"up_1","status":"queued"}`),
				pollPath: func(w http.ResponseWriter, r *http.Request) {
					answer := missing
					if polls.Add(1) > 2 {
						answer = c.later
					}
					respond("%s", answer)(w, r)
				},
			})
			r := idleReplica(t, b, testConfig(t, url))
			r.videos.ResultWait = c.wait
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			events := follow(t, r.log, publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat")))
			v := videoOf(last(events))
			if v.GetError().GetCode() != c.code || polls.Load() < c.polls {
				t.Errorf("ended %v after %d polls", v.GetError(), polls.Load())
			}
			if c.code == "" && len(v.GetVideos()) != 1 || c.code != "" && !strings.Contains(v.GetError().GetMessage(), "withheld by review") {
				t.Errorf("ended %v with %v", v.GetError(), v.GetVideos())
			}
			waiting := videoOf(events[len(events)-2])
			if waiting.GetStatus() != genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS || waiting.GetUpstreamStatus() != "SUCCESS" || waiting.GetProgress() == 100 {
				t.Errorf("meanwhile it was %v", waiting)
			}
			doneOnce(t, b, last(events))
		})
	}
}

// TestATakerContinuesTheWaitForAResult proves that the wait counts from the first success, even if
// another replica polled it, and that the job's deadline ends it, too.
func TestATakerContinuesTheWaitForAResult(t *testing.T) {
	t.Parallel()
	promised := func(ago, left time.Duration) []transition {
		return append(submittedUpstream(left), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			e, _, err := task.Observed(v, now.Add(-ago), task.Observation{Started: true, Status: "completed", Progress: 100})
			return e, err
		})
	}
	for name, past := range map[string][]transition{
		"the wait is over":     promised(11*time.Minute, time.Hour),
		"the deadline is over": promised(time.Minute, -time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			var polls atomic.Int64
			r := newReplica(t, b, testConfig(t, scripted(t, map[string]http.HandlerFunc{
				pollPath: func(w http.ResponseWriter, r *http.Request) {
					polls.Add(1)
					respond(`{"task_id":"up_1","status":"completed"}`)(w, r)
				},
			})))
			inherit(t, r, "v", past...)
			end := last(follow(t, r.log, videoID("v")))
			if message := end.Job.GetError().GetMessage(); message != "the upstream reported success without a video" || polls.Load() != 1 {
				t.Errorf("ended %v after %d polls", end.Job.GetError(), polls.Load())
			}
		})
	}
}

// submittedUpstream returns the past of a job that the sandbox's upstream has accepted.
func submittedUpstream(left time.Duration) []transition {
	return []transition{
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(left)})
		},
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitted(v, now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
		},
	}
}

// TestContentByIDNeedsNoURL proves that a success is the result where content is read by the task's
// ID, unless the answer also has an error.
func TestContentByIDNeedsNoURL(t *testing.T) {
	t.Parallel()
	for answer, message := range map[string]string{
		`{"id":"up_1","status":"completed"}`: "",
		`{"id":"up_1","status":"completed","error":{"code":"moderation_blocked","message":"blocked by our moderation system"}}`: "blocked by our moderation system",
	} {
		b := brokertest.Single(t)
		r := newReplica(t, b, testConfig(t, scripted(t, map[string]http.HandlerFunc{
			"POST /v1/videos":     respond(`{"id":"up_1","status":"queued"}`),
			"GET /v1/videos/{id}": respond("%s", answer),
		})))
		request := videoRequest("v", "sandbox-videos", "a cat")
		end := last(follow(t, r.log, publish(t, b, subject.Video, "v", request)))
		if got := end.Job.GetError().GetMessage(); (message == "") != (got == "") || !strings.Contains(got, message) {
			t.Errorf("%s: ended %v", answer, end.Job.GetError())
		}
	}
}

// TestALateResultAndANestedID proves that one create leads to the video, although the upstream puts
// the ID one level down and has the result some polls after its success.
func TestALateResultAndANestedID(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"sandbox-video", "sandbox-video-enveloped"} {
		up, b := newSandbox(t), brokertest.Single(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		v := videoOf(last(follow(t, r.log, publish(t, b, subject.Video, "v", videoRequest("v", model+":nested,result_after_ms=400", "a cat")))))
		if len(v.GetVideos()) != 1 || v.GetVideos()[0].GetUrl() == "" || up.Sandbox.Stats().Creates != 1 {
			t.Errorf("%s: ended %v with %v", model, v.GetError(), v.GetVideos())
		}
	}
}
