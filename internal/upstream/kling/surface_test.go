package kling

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

const aJobID = "video_abcdefghijklmnopqrstuvwxyz"

// read sends a request through a mux with the surface's patterns below a segment, as a server does.
func read(t testing.TB, segment string, r *http.Request, raw []byte) (upstream.Call, error) {
	t.Helper()
	var call upstream.Call
	err := errors.New("no pattern matches")
	mux := http.NewServeMux()
	for _, p := range (surface{}).Patterns() {
		method, path, _ := strings.Cut(p, " ")
		mux.HandleFunc(method+" /"+segment+path, func(_ http.ResponseWriter, r *http.Request) {
			call, err = surface{}.Read(r, raw)
		})
	}
	mux.ServeHTTP(httptest.NewRecorder(), r)
	return call, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	text := `{"model_name":"m","prompt":"p"}`
	external := `{"model_name":"m","image":"x","external_task_id":"order\u002d1"}`
	cases := []struct {
		method, target, body string
		want                 upstream.Call
	}{
		{"POST", "/text2video", text, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(text))}},
		{"POST", "/image2video", external, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(external)), RequestID: "external_task_id:order-1"}},
		{"POST", "/image2video", `{"image_tail":"x","external_task_id":""}`, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(`{"image_tail":"x","external_task_id":""}`))}},
		{"POST", "/text2video", `{"external_task_id":null}`, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(`{"external_task_id":null}`))}},
		{"GET", "/text2video/" + aJobID, "", upstream.Call{Op: upstream.GetTask, ID: aJobID}},
		{"HEAD", "/image2video/" + aJobID, "", upstream.Call{Op: upstream.GetTask, ID: aJobID}},
		{"GET", "/text2video/order-1", "", upstream.Call{Op: upstream.GetTask, RequestID: "external_task_id:order-1"}},
		{"GET", "/text2video/image2video", "", upstream.Call{Op: upstream.GetTask, RequestID: "external_task_id:image2video"}},
		{"GET", "/text2video/a%2Fb", "", upstream.Call{Op: upstream.GetTask, RequestID: "external_task_id:a/b"}},
		{"GET", "/text2video/video_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "", upstream.Call{Op: upstream.GetTask, RequestID: "external_task_id:video_ABCDEFGHIJKLMNOPQRSTUVWXYZ"}},
		{"GET", "/text2video", "", upstream.Call{Op: upstream.ListTasks, Page: 1, Size: 30}},
		{"GET", "/image2video?pageNum=1000&pageSize=500", "", upstream.Call{Op: upstream.ListTasks, Page: 1000, Size: 500}},
		{"GET", "/image2video?pageNum=&pageSize=1&x=y", "", upstream.Call{Op: upstream.ListTasks, Page: 1, Size: 1}},
	}
	for _, c := range cases {
		for _, segment := range []string{"kling", "other"} {
			t.Run(c.method+c.target+" "+segment, func(t *testing.T) {
				t.Parallel()
				got, err := read(t, segment, httptest.NewRequest(c.method, "/"+segment+"/v1/videos"+c.target, nil), []byte(c.body))
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(body.Document{})); err != nil || diff != "" {
					t.Errorf("error %v, call (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		method, target, body string
		code                 errcode.Code
		want                 string
	}{
		{"POST", "/text2video", `{"image":"x"}`, errcode.InvalidRequest, "image: makes it an image-to-video task; POST the body to /kling/v1/videos/image2video"},
		{"POST", "/text2video", `{"image_tail":"x"}`, errcode.InvalidRequest, "image_tail: makes it an image-to-video task; POST the body to /kling/v1/videos/image2video"},
		{"POST", "/image2video", `{"prompt":"p"}`, errcode.InvalidRequest, "image: is missing, and so is image_tail; give one of them, or POST the body to /kling/v1/videos/text2video"},
		{"POST", "/text2video", `{"image":5}`, errcode.InvalidRequest, "image: makes it an image-to-video task; POST the body to /kling/v1/videos/image2video"},
		{"POST", "/image2video", `{"a`, errcode.InvalidJSON, "the body is not valid JSON: it ends too early"},
		{"POST", "/text2video", ``, errcode.InvalidJSON, "the body is empty; it must be JSON"},
		{"POST", "/text2video", `{"external_task_id":5}`, errcode.InvalidRequest, "external_task_id: is a number; it must be a string"},
		{"POST", "/text2video", `{"external_task_id":"a b"}`, errcode.InvalidRequest, "external_task_id: must be 1 to 128 printable ASCII characters without spaces"},
		{"POST", "/text2video", `{"external_task_id":"` + aJobID + `"}`, errcode.InvalidRequest, "external_task_id: looks like a task ID; choose another one"},
		{"GET", "/text2video/a%20b", "", errcode.TaskNotFound, "task not found; the ID is neither a task ID nor an external_task_id"},
		{"GET", "/text2video?pageNum=0", "", errcode.InvalidRequest, "pageNum: must be a whole number from 1 to 1000"},
		{"GET", "/text2video?pageNum=1001", "", errcode.InvalidRequest, "pageNum: must be a whole number from 1 to 1000"},
		{"GET", "/text2video?pageSize=x", "", errcode.InvalidRequest, "pageSize: must be a whole number from 1 to 500"},
		{"GET", "/text2video?pageSize=501", "", errcode.InvalidRequest, "pageSize: must be a whole number from 1 to 500"},
	}
	for _, c := range cases {
		t.Run(c.method+c.target+c.body, func(t *testing.T) {
			t.Parallel()
			call, err := read(t, "kling", httptest.NewRequest(c.method, "/kling/v1/videos"+c.target, nil), []byte(c.body))
			f, ok := errors.AsType[*errcode.Error](err)
			if !ok || f.Code != c.code || f.Message != c.want {
				t.Errorf("call %+v, error %v", call, err)
			}
		})
	}
}

// TestReadOffThePatterns checks requests that such a mux would not pass on.
func TestReadOffThePatterns(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]errcode.Code{
		"GET /kling/v1/videos/lip-sync":      errcode.NotFound,
		"POST /":                             errcode.NotFound,
		"DELETE /kling/v1/videos/text2video": errcode.MethodNotAllowed,
	} {
		method, path, _ := strings.Cut(target, " ")
		if _, err := (surface{}).Read(httptest.NewRequest(method, path, nil), []byte(`{}`)); errcode.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", target, err, want)
		}
	}
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	p := Protocol()
	if p.Name != "kling" || p.New == nil || p.Sign == nil || p.Bodies == nil {
		t.Errorf("Protocol = %+v", p)
	}
	want := []string{
		"POST /v1/videos/text2video", "GET /v1/videos/text2video/{id}", "GET /v1/videos/text2video",
		"POST /v1/videos/image2video", "GET /v1/videos/image2video/{id}", "GET /v1/videos/image2video",
	}
	if diff := cmp.Diff(want, p.Surface.Patterns()); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
	handler, requests := record(`{"id":"t","status":"queued"}`)
	ep := endpoint(t, handler)
	ep.Auth = p.Sign("a", "s")
	sub := p.New(ep, upstream.Options{Gateway: true}).Create(t.Context(), aCreate)
	if got := <-requests; sub.Verdict != upstream.Accepted || !strings.HasPrefix(got.Auth, "Bearer eyJ") || !strings.Contains(got.Body, `"metadata"`) {
		t.Errorf("submission %+v, request %+v", sub, got)
	}
}

// FuzzRead checks that Read returns either a complete call or an error with a message.
func FuzzRead(f *testing.F) {
	f.Add("POST", "text2video", "", []byte(`{"model_name":"m","external_task_id":"a"}`))
	f.Add("POST", "image2video", "", []byte(`{"image":"\ud800"}`))
	f.Add("GET", "text2video/"+aJobID, "", []byte(nil))
	f.Add("GET", "text2video/%00", "", []byte(nil))
	f.Add("GET", "image2video", "pageNum=%zz&pageSize=9999999999999999999", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path, query string, raw []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://h/kling/v1/videos/"+path+"?"+query, nil)
		if err != nil {
			return
		}
		if _, id, ok := strings.Cut(r.URL.Path[len("/kling/v1/videos/"):], "/"); ok {
			r.SetPathValue("id", id)
		}
		call, err := surface{}.Read(r, raw)
		if err != nil {
			if f, ok := errors.AsType[*errcode.Error](err); !ok || f.Message == "" {
				t.Errorf("error %v", err)
			}
			return
		}
		if problem := incomplete(call, raw); problem != "" {
			t.Errorf("%s: %+v", problem, call)
		}
	})
}

func incomplete(c upstream.Call, raw []byte) string {
	key := strings.TrimPrefix(c.RequestID, externalPrefix)
	switch {
	case c.RequestID != "" && (key == c.RequestID || !isKey(key)):
		return "a bad request id"
	case c.Op == upstream.CreateTask && (string(c.Body.Bytes()) != string(raw) || c.ID != ""):
		return "a create of something else"
	case c.Op == upstream.GetTask && (c.ID == "") == (c.RequestID == ""):
		return "not exactly one id"
	case c.Op == upstream.ListTasks && (c.Page < 1 || c.Page > 1000 || c.Size < 1 || c.Size > 500):
		return "a bad page"
	case c.Op < upstream.CreateTask || c.Op > upstream.ListTasks:
		return fmt.Sprintf("operation %d", c.Op)
	}
	return ""
}
