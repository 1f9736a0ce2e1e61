package sandbox

import (
	"encoding/json"
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

// FuzzVideoBody checks that whatever is accepted is answered with valid JSON, in
// both dialects and at every stage of the task.
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
		made, err := s.newTask(req, false, b)
		if err != nil {
			return
		}
		for _, now := range []time.Duration{made.created, made.created + made.duration/2, made.created + made.duration} {
			st := made.at(now)
			if st.progress < 0 || st.progress > 100 {
				t.Errorf("progress %d", st.progress)
			}
			for _, answer := range [][]byte{
				made.appendCreated(nil, 0, true), made.appendCreated(nil, 0, false),
				made.appendFlat(nil, st, 0, "http://h"), made.appendEnvelope(nil, st, 0, 0, "http://h"),
			} {
				if !json.Valid(answer) {
					t.Errorf("body %q is answered with %s", body, answer)
				}
			}
		}
	})
}

// FuzzChatBody checks that whatever is accepted is answered with valid JSON.
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
