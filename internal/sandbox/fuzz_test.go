package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func FuzzModelSuffix(f *testing.F) {
	for _, seed := range []string{
		"", "hang", "status=429,times=2", "statuses=a|b|c", "fail=x y,fail_code=12", ",", "=", "status=1e9",
		"drop=after_create", "chunk_interval_ms=0", "status=true", "retry_after=2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, suffix string) {
		var b Behaviour
		if b.applySuffix(suffix) != nil || b.validate() != nil {
			return
		}
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var again Behaviour
		if err := again.applyJSON(raw); err != nil {
			t.Fatalf("suffix %q became %s: %v", suffix, raw, err)
		}
	})
}

// FuzzVideoBody proves that every accepted body is answered with valid JSON, in both dialects and
// at every stage of the task.
func FuzzVideoBody(f *testing.F) {
	for _, seed := range []string{
		`{"model":"sandbox-video","prompt":"p"}`,
		`{"model":"sandbox-video:fail=\"","prompt":"p","n":10,"duration":"1e-3"}`,
		`{"model":"sandbox-video","prompt":"p","metadata":{"sandbox":{"statuses":["\u0000","done"],"duration_ms":1}}}`,
		`{"model":"sandbox-video","prompt":"p","metadata":"{\"sandbox\":{\"fail\":\"\\ud800\"}}"}`,
		`{"metadata":[1]}`, `{"seed":-9223372036854775808,"duration":1e308}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	s := New(Options{})
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseVideo(body)
		if err != nil {
			return
		}
		var b Behaviour
		_, suffix := splitModel(req.Model)
		if b.applySuffix(suffix) != nil || b.applyJSON(sandboxOf(req.Metadata)) != nil || b.validate() != nil {
			return
		}
		made, err := s.newVideo(req, ModelVideo, b)
		if err != nil {
			return
		}
		for _, now := range []time.Duration{made.created, made.created + made.duration/2, made.created + made.duration} {
			st := made.at(now, &flatWords)
			if st.progress < 0 || st.progress > 100 {
				t.Errorf("progress %d", st.progress)
			}
			for _, answer := range [][]byte{
				made.appendCreated(nil, 0, true), made.appendCreated(nil, 0, false),
				made.appendFlat(nil, st, 0, "http://h"), made.appendEnvelope(nil, st, 0, 0, "http://h"),
				made.appendAccepted(nil, "http://h", true),
			} {
				if !json.Valid(answer) {
					t.Errorf("body %q is answered with %s", body, answer)
				}
			}
			for name, sh := range shapes {
				shaped := script{shape: sh}
				if made.script != nil {
					shaped.statuses, shaped.fail, shaped.failCode = made.script.statuses, made.script.fail, made.script.failCode
				}
				other := task{id: made.id, created: made.created, duration: made.duration, videos: made.videos, script: &shaped}
				if answer := other.appendShaped(nil, now, time.Time{}, "http://h"); !json.Valid(answer) {
					t.Errorf("body %q is answered in the shape %s with %s", body, name, answer)
				}
			}
		}
	})
}

// FuzzChatBody proves that every accepted body is answered with valid JSON.
func FuzzChatBody(f *testing.F) {
	for _, seed := range []string{
		`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"tool"}]}],"tools":[{"function":{"name":"\"\\"}}]}`,
		`{"messages":[{"role":"user","content":null}],"reasoning_effort":"high","max_tokens":-1}`,
		`{"messages":[{}],"max_tokens":0,"max_completion_tokens":1}`, `{"messages":[null]}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	s := New(Options{})
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseChat(body)
		if err != nil || len(req.Messages) == 0 {
			return
		}
		if answer := s.replyTo(req, Behaviour{}).appendCompletion(nil); !json.Valid(answer) {
			t.Errorf("body %q is answered with %s", body, answer)
		}
	})
}

// FuzzCreates proves that every path that creates tasks answers any body with valid JSON, and that
// the created tasks do too.
func FuzzCreates(f *testing.F) {
	for _, seed := range []string{
		`{"model":"sandbox-videos","prompt":"\ud800","seconds":"1e-9","size":"1x8192","input_reference":{"file_id":"f"}}`,
		`{"model":"sandbox-videos-gateway","prompt":"p","metadata":"[]"}`,
		`{"model_name":"sandbox-kling","prompt":"p","image":"i","duration":"15","external_task_id":"\""}`,
		`{"model":"sandbox-kling-gateway","prompt":"p","metadata":{"duration":"3"}}`,
		`{"req_key":"sandbox_jimeng","prompt":"p","frames":25,"image_urls":["a"]}`,
		"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsandbox-videos\r\n--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\np\r\n--b--\r\n",
		`null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	paths := []string{"/v1/videos", "/v1/videos/text2video", "/v1/videos/image2video", "/?Action=" + jimengSubmit + "&Version=" + jimengVersion}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := New(Options{})
		s.SetBehaviour(func(*http.Request, []byte) *Behaviour { return &Behaviour{} }) // disable waits and drops
		call := func(method, path, contentType string, body []byte) {
			r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			if !json.Valid(rec.Body.Bytes()) || rec.Code >= 500 && rec.Code != http.StatusServiceUnavailable {
				t.Errorf("%s %s of %q is answered with %d %s", method, path, body, rec.Code, rec.Body)
			}
		}
		for _, path := range paths {
			call(http.MethodPost, path, "application/json", body)
			call(http.MethodPost, path, "multipart/form-data; boundary=b", body)
		}
		for _, made := range s.tasks.those(func(*task) bool { return true }) {
			for _, path := range []string{"/v1/videos/", "/v1/videos/text2video/", "/v1/videos/image2video/", "/v1/video/generations/"} {
				call(http.MethodGet, path+made.id, "", nil)
			}
		}
		for _, path := range []string{"/v1/videos", "/v1/videos/text2video"} {
			call(http.MethodGet, path, "", nil)
		}
	})
}
