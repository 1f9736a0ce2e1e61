package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// createAnswers maps answers to a create to the task's ID. "" means that the outcome is unknown.
// The protocol of these tests reads only a top-level "id".
var createAnswers = map[string]string{
	// Under another name, or nested.
	`{"task_id":"t"}`:                      "t",
	`{"taskId":"t"}`:                       "t",
	`{"job_id":"t","status":"queued"}`:     "t",
	`{"video_id":"t"}`:                     "t",
	`{"generation_id":"t"}`:                "t",
	`{"taskUUID":"t"}`:                     "t",
	`{"data":{"id":"t"}}`:                  "t",
	`{"data":{"output":{"id":"t"}}}`:       "t",
	`{"data":{"data":{"task_id":"t"}}}`:    "t",
	`{"data":[{"task_id":"t"}]}`:           "t",
	`{"result":{"job":{"id":"t"}}}`:        "t",
	`{"task":{"id":"t"},"request_id":"r"}`: "t",
	`{"code":200,"msg":"success","data":{"taskId":"t","recordId":"x"}}`:          "t", // Kie
	`{"code":"0","message":"ok","data":{"task_id":"t"}}`:                         "t",
	`{"ErrCode":0,"ErrMsg":"success","Resp":{"video_id":7,"credits":1}}`:         "7", // PixVerse
	`{"output":{"task_status":"PENDING","task_id":"t"},"request_id":"r"}`:        "t", // DashScope
	`{"task_id":"t","base_resp":{"status_code":0,"status_msg":"success"}}`:       "t", // MiniMax
	`{"error":null,"data":{"video_id":"t"}}`:                                     "t", // HeyGen
	`{"code":0,"message":"ok","request_id":"r","data":{"data":{"task_id":"t"}}}`: "t",

	`{"taskId":"t","task_id":null}`: "t",

	// Several IDs of a task.
	`{"video_id":"t","data":{"task_id":"v"}}`:       "t",
	`{"task_id":"t","data":{"task_id":"v"}}`:        "t",
	`{"uuid":"u","data":{"generation_id":"t"}}`:     "t",
	`{"code":0,"message":"ok","data":{"uuid":"t"}}`: "t",

	// A request's ID, if nothing else can be the task's.
	`{"id":"request-1","data":{"id":"t"}}`: "t",
	`{"request_id":"call-1"}`:              "call-1",
	`{"request_id":"t"}`:                   "t", // xAI
	`{"requestId":"t"}`:                    "t", // SiliconFlow
	`{"status":"IN_QUEUE","request_id":"t","response_url":"https://queue.example.com/requests/t","queue_position":0}`: "t", // fal
	`{"message":"the video was queued","status":"queued","request_id":"t"}`:                                           "t",
	`{"data":{"request_id":"t"}}`: "t",

	// The ID of the call, which another ID outranks.
	`{"id":"req_1","output":{"task_id":"t"}}`:            "t",
	`{"id":"r","request_id":"r","data":{"task_id":"t"}}`: "t",
	`{"id":"call-1","data":{"task_id":"t"}}`:             "t", // as in the header
	`{"id":"req_1"}`:                                     "req_1",
	`{"id":"t","data":{"task_id":"v"}}`:                  "t", // the gateway's ID, then the vendor's
	`{"id":"t","data":{"id":"v"}}`:                       "t",
	`{"task_id":"","data":{"id":"t"}}`:                   "t",
	`{"task_id":null,"request_id":"t"}`:                  "t",
	`{"data":{"id":6,"task_id":"t"}}`:                    "t", // an integer is a database key
	`{"data":{"task_id":9007199254740993}}`:              "9007199254740993",

	// No ID of a task.
	`{"code":1303,"message":"too many tasks","uuid":"u"}`:                  "",
	`{"error":{"message":"no credits"},"uuid":"u"}`:                        "",
	`{"errors":[{"message":"no credits"}],"uuid":"u"}`:                     "",
	`{"data":{"error":{"message":"no credits"},"uuid":"u"}}`:               "",
	`{"message":"Insufficient credits","uuid":"u"}`:                        "",
	`{"taskId":"","task_id":null}`:                                         "",
	`{"status":"queued"}`:                                                  "",
	`{"code":0,"message":"SUCCEED","request_id":"r"}`:                      "",
	`{"code":"success","request_id":"r","data":null}`:                      "",
	`{"code":1303,"message":"too many tasks","request_id":"r"}`:            "",
	`{"code":1303,"message":"too many tasks","data":{"request_id":"r"}}`:   "",
	`{"message":"Insufficient credits","request_id":"r"}`:                  "",
	`{"status":"error","message":"Insufficient credits","request_id":"r"}`: "",
	`{"error":{"message":"Insufficient credits"},"request_id":"r"}`:        "",
	`{"error":"Insufficient credits","request_id":"r"}`:                    "",
	`{"code":"no_credit","message":"x","data":{"id":"user-1"}}`:            "",
	`{"base_resp":{"status_code":1008},"request_id":"r"}`:                  "",
	`{"data":{"id":6}}`: "",
	`{"data":{"user":{"id":"u"},"user_id":"u","model_id":"m","trace_id":"x"}}`:     "",
	`{"error":{"id":"e","message":"no"},"properties":{"task_id":"x"}}`:             "",
	`{"data":{"data":{"data":{"data":{"data":{"data":{"task_id":"too deep"}}}}}}}`: "",
}

// TestTaskIDElsewhere checks that an ID in an unusual place makes a create accepted, and that no
// other ID does.
func TestTaskIDElsewhere(t *testing.T) {
	t.Parallel()
	for answer, want := range createAnswers {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			sub := submit(t.Context(), testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "call-1")
				_, _ = io.WriteString(w, answer)
			}), aCreate)
			if accepted := sub.Verdict == Accepted; accepted != (want != "") || sub.UpstreamID != want {
				t.Errorf("%v with ID %q, want %q (%v)", sub.Verdict, sub.UpstreamID, want, sub.Err)
			}
			if sub.Verdict != Accepted && sub.Verdict != Unknown {
				t.Errorf("a 2xx became %v", sub.Verdict)
			}
		})
	}
}

// pollAnswer is the meaning of an answer to a poll.
type pollAnswer struct {
	progression Progression
	url         string // of the only result
	says        string // part of the error, "" for none
}

// pollAnswers maps answers to their meaning in a protocol that puts results into the poll.
var pollAnswers = map[string]pollAnswer{
	// A result in another place.
	`{"status":"completed","video":{"url":"https://e.com/v.mp4","duration":8}}`:                                             {Completed, "https://e.com/v.mp4", ""},
	`{"status":"completed","data":[{"url":"https://e.com/v.mp4"}]}`:                                                         {Completed, "https://e.com/v.mp4", ""},
	`{"status":"completed","output":["https://e.com/v.mp4"]}`:                                                               {Completed, "https://e.com/v.mp4", ""},
	`{"status":"success","file":{"download_url":"https://e.com/v.mp4"}}`:                                                    {Completed, "https://e.com/v.mp4", ""},
	`{"status":"success","creations":[{"id":"1","url":"https://e.com/v.mp4","cover_url":"https://e.com/c.png"}]}`:           {Completed, "https://e.com/v.mp4", ""},
	`{"status":"success","task":{"content":{"output_url":"https://e.com/v.mp4"}}}`:                                          {Completed, "https://e.com/v.mp4", ""},
	`{"status":"done","response":{"generateVideoResponse":{"generatedSamples":[{"video":{"uri":"https://e.com/v.mp4"}}]}}}`: {Completed, "https://e.com/v.mp4", ""},
	`{"status":"completed","input":{"url":"https://e.com/in.mp4"},"urls":{"get":"https://e.com/get"}}`:                      {Completed, "", "without a video"},

	// A status in another place.
	`{"output":{"task_id":"t","task_status":"RUNNING"},"request_id":"r"}`:                                      {InProgress, "", ""},
	`{"output":{"task_id":"t","task_status":"SUCCEEDED","video_url":"https://e.com/v.mp4"}}`:                   {Completed, "https://e.com/v.mp4", ""},
	`{"output":{"task_id":"t","task_status":"FAILED","message":"the picture is too small"}}`:                   {Failed, "", "the picture is too small"},
	`{"state":"created","data":{"status":"queued"}}`:                                                           {Queued, "", ""},
	`{"code":200,"msg":"success","data":{"taskId":"t","state":"fail","failMsg":"x","errorMessage":"no face"}}`: {Failed, "", "no face"},

	// No result, with or without a reason.
	`{"status":"completed"}`:                                                         {Completed, "", "without a video"},
	`{"status":"completed","url":""}`:                                                {Completed, "", "without a video"},
	`{"status":"completed","message":"success"}`:                                     {Completed, "", "without a video"},
	`{"status":"completed","message":"the file is being stored"}`:                    {Completed, "", "without a video: the file is being stored"},
	`{"status":"completed","result_url":"Post Video Risk"}`:                          {Completed, "", "without a video: Post Video Risk"},
	`{"status":"completed","data":{"fail_reason":"no face"}}`:                        {Completed, "", "without a video: no face"},
	`{"status":"completed","error":{"code":"moderation_blocked","message":"no"}}`:    {Completed, "", "moderation_blocked: the upstream reported success without a video: no"},
	`{"status":"completed","error":"content policy"}`:                                {Completed, "", "without a video: content policy"},
	`{"status":"done","video":{"url":"","respect_moderation":false}}`:                {Completed, "", "without a video: its moderation withheld the video"},
	`{"status":"done","response":{"raiMediaFilteredReasons":["blocked by safety"]}}`: {Completed, "", "without a video: blocked by safety"},
}

// TestStateElsewhere checks the answers to polls whose status or result is in an unusual place, or
// missing.
func TestStateElsewhere(t *testing.T) {
	t.Parallel()
	for answer, want := range pollAnswers {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			state := polled(t, answer, false)
			if state.Progression != want.progression || (state.Err != nil) != (want.says != "") || len(state.Videos) > 1 {
				t.Fatalf("got %+v, %v", state, state.Err)
			}
			url := ""
			for _, v := range state.Videos {
				url = v.URL
			}
			if url != want.url {
				t.Errorf("the result is %q", url)
			}
			if state.Err != nil && !strings.Contains(state.Err.Error(), want.says) {
				t.Errorf("the error is %v", state.Err)
			}
		})
	}
}

// denials lists members with which a completed task's answer denies the video.
var denials = []string{
	`"error":{"code":"moderation_blocked","message":"no"}`,
	`"error":{"message":"no"}`,
	`"error":"the output was blocked"`,
	`"error":["the output was blocked"]`,
	`"fail_reason":"the output was blocked"`,
	`"failure_reason":"content_violation"`, // Azure
	`"error_message":"blocked"`,
	`"block_reason":"SAFETY"`,
	`"video":{"url":"","respect_moderation":false}`, // xAI
	`"respect_moderation":false`,
	`"moderated":true`, // Grok
	`"moderation":{"blocked":true}`,
	`"has_nsfw_concepts":[true]`,                                       // fal
	`"response":{"generateVideoResponse":{"raiMediaFilteredCount":1}}`, // Veo
	`"response":{"raiMediaFilteredCount":1,"raiMediaFilteredReasons":["violates our policies"]}`, // Veo on Vertex
}

// noDenials lists members that do not deny the video.
var noDenials = []string{
	`"url":""`, `"url":"/v1/videos/t/content"`, `"metadata":{"url":"","error":"x"}`, `"videos":[]`, `"message":"your video is ready"`, `"msg":"ok"`,
	`"error":{"code":0,"message":"no error"}`, `"error":{"code":"0","message":"No error"}`, `"error":"N/A"`, `"fail_reason":"-"`,
	`"error":null`, `"error":""`, `"error":{}`, `"error":{"code":0,"message":""}`, `"error":{"code":"success","message":"OK"}`, `"error":"none"`, `"error":[]`,
	`"fail_reason":""`, `"fail_reason":"SUCCEED"`, `"failure_reason":null`, `"block_reason":null`, `"input":{"moderated":true}`,
	`"moderated":false`, `"respect_moderation":true`, `"moderation":{"blocked":false}`, `"has_nsfw_concepts":[false]`, `"response":{"raiMediaFilteredCount":0}`,
}

// TestSuccessByID checks that a success without a URL is a result where content is read by ID,
// unless the answer denies it.
func TestSuccessByID(t *testing.T) {
	t.Parallel()
	for want, list := range map[Progression][]string{Failed: denials, Completed: noDenials} {
		for _, more := range list {
			t.Run(more, func(t *testing.T) {
				t.Parallel()
				state := polled(t, `{"id":"t","status":"completed",`+more+`}`, true)
				if state.Progression != want || (state.Err != nil) != (want == Failed) || len(state.Videos) > 0 {
					t.Errorf("got %+v, %v", state, state.Err)
				}
				if e := state.Err; e != nil && (!e.Reported || !e.Final || e.HTTPStatus != http.StatusOK || e.Message == "") {
					t.Errorf("the error is %+v", e)
				}
			})
		}
	}
}

func polled(t *testing.T, answer string, byID bool) VideoState {
	t.Helper()
	ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	state, err := ep.Poll(t.Context(), TaskRef{ID: "t"}, PollCall{Path: "/v1/tasks/t", ContentByID: byID, Read: func(_ *http.Response, body []byte) (VideoState, bool, error) {
		var answer struct{ Status string }
		err := json.Unmarshal(body, &answer)
		return VideoState{Progression: ProgressionOf(answer.Status), Status: answer.Status}, answer.Status != "", err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestUnreadableStatesStayErrors checks that no state is read from an error, or from a list, which
// may be of other tasks.
func TestUnreadableStatesStayErrors(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{"code":1303,"message":"slow down","data":{"task_status":"failed"}}`,
		`{"data":[{"task_id":"other","task_status":"failed"}]}`,
		`{"state":5}`, `{"input":{"state":"failed"}}`, `[]`, `{}`,
	} {
		ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
		if state, err := poll(t.Context(), ep, TaskRef{ID: "t"}); err == nil {
			t.Errorf("%s: got %+v", answer, state)
		}
	}
}

// TestStatusOfAnEnvelope checks that the status in an envelope is not taken for the task's, unless
// there is no other.
func TestStatusOfAnEnvelope(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"code":0,"message":"ok","status":"success","data":{"status":"processing"}}`:                        "processing",
		`{"code":0,"status":"success","data":{"base_resp":{},"status":"success","task":{"state":"queued"}}}`: "queued",
		`{"code":"0","message":"ok","status":"processing","data":{"id":"t"}}`:                                "processing",
		`{"status":"processing","result":{"status":"success"}}`:                                              "processing",
	} {
		state, ok := searchState(&http.Response{StatusCode: http.StatusOK}, []byte(answer))
		if !ok || state.Status != want {
			t.Errorf("%s: %+v, want %s", answer, state, want)
		}
	}
}

// FuzzSearch checks that only usable results are found, and that reasons are bounded, whatever an
// upstream sends.
func FuzzSearch(f *testing.F) {
	for _, name := range resultFiles(f) {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for answer := range createAnswers {
		f.Add([]byte(answer))
	}
	for answer := range pollAnswers {
		f.Add([]byte(answer))
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = searchTaskID(resp, raw)
		for _, byID := range []bool{false, true} {
			s := VideoState{Progression: Completed}
			s.Conclude(resp, raw, byID)
			for _, v := range s.Videos {
				if !IsResultURL(v.URL) || byID {
					t.Errorf("found %q", v.URL)
				}
			}
			if s.Err == nil && !byID && s.Videos == nil || s.Err != nil && (len(s.Err.Message) > maxMessage || s.Videos != nil) {
				t.Errorf("got %+v, %v", s, s.Err)
			}
		}
	})
}

// TestResultFiles checks that every file in testdata/results yields the same URL, or none if its
// name begins with none-.
func TestResultFiles(t *testing.T) {
	t.Parallel()
	for _, name := range resultFiles(t) {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := "https://cdn.example/video.mp4?sig=1&e=2"
		if matched, _ := filepath.Match("none-*", filepath.Base(name)); matched {
			want = ""
		}
		got := ""
		if found := FindResults(raw); len(found) > 0 {
			got = found[0].URL
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func resultFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/results/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}
