package consumer

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// klingRequest returns a request for the vendor that finds tasks by our ID.
func klingRequest(requestID, model string) *genbusv1.VideoRequest {
	r := videoRequest(requestID, model, "a cat")
	r.Protocol = "kling"
	return r
}

func newLooking(t testing.TB, b *broker.Broker, cfg *config.Config, after time.Duration) *replica {
	t.Helper()
	r := idleReplica(t, b, cfg)
	r.videos.LookUps = []time.Duration{after}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func memberOf(r *http.Request, name string) string {
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return ""
	}
	text, _ := body[name].(string)
	return text
}

// TestALostCreateIsFound proves that a job continues with its task if the answer to the create was
// lost.
func TestALostCreateIsFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		id := publish(t, b, subject.Video, "one", klingRequest("one", "sandbox-kling:drop=after_create"))
		end := last(follow(t, r.log, id))
		v := videoOf(end)
		if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetUpstreamTaskId() == "" || v.GetExecution().GetAttempt() != 1 {
			t.Errorf("ended %v after %d attempts", v.GetError(), v.GetExecution().GetAttempt())
		}
		if own := v.GetExecution().GetOwnTaskId(); own != task.OwnID(v) || !strings.HasPrefix(own, id+"-") {
			t.Errorf("the ID sent is %q", own)
		}
		if s := up.Sandbox.Stats(); s.Creates != 1 || s.Tasks != 1 || len(deadLetters(t, b)) != 0 {
			t.Errorf("%d creates, %d tasks, dead letters %v", s.Creates, s.Tasks, deadLetters(t, b))
		}
	})
}

// TestTheNextHolderFindsTheTask proves that the next holder finds the task of a holder that died
// during the create.
func TestTheNextHolderFindsTheTask(t *testing.T) {
	brokertest.Full(t, "waits until a submission may be taken over")
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	made := make(chan struct{}, 1)
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost {
			return nil
		}
		made <- struct{}{}
		return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
	})
	cfg := testConfig(t, up.URL())
	first := newLooking(t, b, cfg, time.Hour) // it finds nothing itself
	id := publish(t, b, subject.Video, "one", klingRequest("one", "sandbox-kling"))
	follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING)
	await(t, "the create", made)
	first.stop(false)
	second := newReplica(t, b, cfg)
	if end := last(follow(t, second.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
	if s := up.Sandbox.Stats(); s.Creates != 1 || len(deadLetters(t, b)) != 0 {
		t.Errorf("%d creates, dead letters %v", s.Creates, deadLetters(t, b))
	}
}

// TestATaskOfACancelledJobIsFound proves that the task of a cancelled job is kept as a dead letter.
func TestATaskOfACancelledJobIsFound(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	cfg := testConfig(t, up.URL())
	first := newLooking(t, b, cfg, time.Hour)
	id := publish(t, b, subject.Video, "one", klingRequest("one", "sandbox-kling:drop=after_create"))
	submitting := last(follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING))
	first.eventually(t, "the task is made", func() bool { return up.Sandbox.Stats().Tasks == 1 })
	first.stop(false)
	second := idleReplica(t, b, cfg)
	end := cancelJob(t, second.log, submitting)
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.noItems(t, end.Name())
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() == "" || letters[0].GetAttempt() != 1 {
		t.Errorf("dead letters %v", letters)
	}
}

// klingVendor does not answer creates, and answers look-ups as a test defines.
type klingVendor struct {
	mu    sync.Mutex
	find  http.HandlerFunc
	sent  []string // own IDs of creates
	looks int
}

func (v *klingVendor) url(t *testing.T) string {
	return scripted(t, map[string]http.HandlerFunc{
		"POST /kling/v1/videos/text2video": func(w http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.sent = append(v.sent, memberOf(r, "external_task_id"))
			panic(http.ErrAbortHandler)
		},
		"GET /kling/v1/videos/text2video/{id}": func(w http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.looks++
			v.find(w, r)
		},
	})
}

// TestWhatIsNoProofLeavesADeadLetter proves that a job ends as unknown after inconclusive look-ups,
// and that its dead letter has the ID sent and the result of each look-up.
func TestWhatIsNoProofLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	const found = `{"code":0,"data":{"task_id":"theirs","task_status":"processing","created_at":%d,"task_info":{"external_task_id":%q}}}`
	for name, c := range map[string]struct {
		find   http.HandlerFunc
		result genbusv1.LookUpResult
		task   string
	}{
		"not visible":    {respondWith(http.StatusBadRequest, `{"code":1201,"message":"Task not found by id/external id"}`), genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE, ""},
		"an empty list":  {respond(`{"code":0,"data":[]}`), genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE, ""},
		"an outage":      {respondWith(http.StatusServiceUnavailable, `{"code":5001,"message":"maintenance"}`), genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, ""},
		"a page":         {respond(`<html>`), genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, ""},
		"another own ID": {respond(found, time.Now().Add(time.Hour).UnixMilli(), "video_other"), genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, "theirs"},
		"of an older job": {func(w http.ResponseWriter, r *http.Request) {
			respond(found, time.Now().Add(-2*time.Minute).UnixMilli(), r.PathValue("id"))(w, r)
		}, genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, "theirs"},
		"of unknown age": {func(w http.ResponseWriter, r *http.Request) { respond(found, 0, r.PathValue("id"))(w, r) }, genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, vendor := brokertest.Single(t), &klingVendor{find: c.find}
			r := newReplica(t, b, testConfig(t, vendor.url(t)))
			id := publish(t, b, subject.Video, "one", klingRequest("one", "sandbox-kling"))
			end := last(follow(t, r.log, id))
			doneOnce(t, b, end)
			letters := deadLetters(t, b)
			if end.Job.GetError().GetCode() != "submission_outcome_unknown" || len(letters) != 1 {
				t.Fatalf("ended %v, dead letters %v", end.Job.GetError(), letters)
			}
			l, own := letters[0], videoOf(end).GetExecution().GetOwnTaskId()
			if len(vendor.sent) != 1 || vendor.sent[0] != own || l.GetOwnTaskId() != own || vendor.looks < len(lookUpsOfTests) || len(l.GetLookUps()) != len(lookUpsOfTests) {
				t.Errorf("sent %v, looked %d times, the dead letter is %v", vendor.sent, vendor.looks, l)
			}
			for _, look := range l.GetLookUps() {
				known := look.GetResult() == genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN
				if look.GetResult() != c.result || look.GetUpstreamTaskId() != c.task || known != (look.GetDetail() != "") {
					t.Errorf("looked up %v", look)
				}
			}
		})
	}
}

// TestAResubmissionThatIsKnownGoesOn proves that a job continues with its first task if the vendor
// refuses a second create with the same own ID.
func TestAResubmissionThatIsKnownGoesOn(t *testing.T) {
	t.Parallel()
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 200 * time.Millisecond, RepeatCreates: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	b := brokertest.Single(t)
	// The look-up comes after the delay of the first resubmission (0.8 to 1.2 s), and before the
	// end of the second delay (at least 1.6 s).
	r := newLooking(t, b, testConfig(t, up.URL(), func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].OnUnknownOutcome = config.OnUnknownResubmit
			}
		}
	}), 1300*time.Millisecond)
	id := publish(t, b, subject.Video, "one", klingRequest("one", "sandbox-kling:drop=after_create,times=1"))
	end := last(follow(t, r.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() < 2 {
		t.Errorf("ended %v after %d attempts", end.Job.GetError(), end.Job.GetExecution().GetAttempt())
	}
	if s := up.Sandbox.Stats(); s.Creates < 2 || s.Tasks != 1 || len(deadLetters(t, b)) != 0 {
		t.Errorf("%d creates, %d tasks", s.Creates, s.Tasks)
	}
}

// TestManyLostCreates proves that of 1,000 jobs with 100 lost answers all complete at a vendor that
// finds tasks by our ID, and that elsewhere 100 leave a dead letter without a second submission.
func TestManyLostCreates(t *testing.T) {
	t.Parallel()
	const jobs, lost = 1000, 100
	for model, letters := range map[string]int{"sandbox-kling": 0, "sandbox-video": lost} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			brokertest.Full(t, "submits 1,000 videos")
			up, b := newSandbox(t), brokertest.Single(t)
			var creates atomic.Int64
			up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
				if r.Method != http.MethodPost || creates.Add(1)%(jobs/lost) != 0 {
					return nil
				}
				return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
			})
			r := newReplica(t, b, testConfig(t, up.URL()))
			ids := make([]string, 0, jobs)
			for i := range jobs {
				key := strconv.Itoa(i)
				ids = append(ids, publish(t, b, subject.Video, key, videoRequest(key, model, "a cat")))
			}
			ended := map[string]int{}
			for _, id := range ids {
				end := last(follow(t, r.log, id))
				ended[end.Job.GetStatus().String()+end.Job.GetError().GetCode()]++
			}
			want := map[string]int{"JOB_STATUS_COMPLETED": jobs - letters}
			if letters > 0 {
				want["JOB_STATUS_FAILEDsubmission_outcome_unknown"] = letters
			}
			if s := up.Sandbox.Stats(); !maps.Equal(ended, want) || s.Creates != jobs || s.Tasks != jobs || len(deadLetters(t, b)) != letters {
				t.Errorf("%d creates, %d tasks, %d dead letters, ended %v", s.Creates, s.Tasks, len(deadLetters(t, b)), ended)
			}
		})
	}
}
