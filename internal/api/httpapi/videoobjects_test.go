package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// formType is the media type of the forms that formBody writes.
const formType = "multipart/form-data; boundary=next-part"

// formBody writes a form. A field is a name and a value; a file is a name, a file name and its
// content.
func formBody(t testing.TB, fields ...[]string) string {
	t.Helper()
	var buf bytes.Buffer
	form := multipart.NewWriter(&buf)
	if err := form.SetBoundary("next-part"); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		create := form.CreateFormField
		if len(f) == 3 {
			create = func(name string) (io.Writer, error) { return form.CreateFormFile(name, f[1]) }
		}
		part := apitest.Must[io.Writer](t)(create(f[0]))
		if _, err := io.WriteString(part, f[len(f)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

var plainFields = [][]string{{"model", "sandbox-videos"}, {"prompt", "a cat"}, {"seconds", "4"}, {"size", "1280x720"}}

// workBody returns the body for the upstream of a job.
func (w *world) workBody(id string) string {
	w.T.Helper()
	return string(w.workItem(id).GetBody())
}

func (w *world) workItem(id string) *genbusv1.WorkItem {
	w.T.Helper()
	m, err := w.Broker.Last(w.T.Context(), w.Broker.Names().Work(), w.Broker.Names().WorkAnyRoute(subject.Video, "default", id))
	if err != nil {
		w.T.Fatal(err)
	}
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(m.Data, item); err != nil {
		w.T.Fatal(err)
	}
	return item
}

// TestVideoObjectByJSONAndByForm checks that JSON and form make the same task, and a form's file
// becomes a data URL.
func TestVideoObjectByJSONAndByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const canonical = `{"model":"sandbox-videos","prompt":"a cat","seconds":"4","size":"1280x720"}`
	byJSON := w.Post("/v1/videos", canonical, "Idempotency-Key", "k")
	byForm := w.Post("/v1/videos", formBody(t, plainFields...), "Idempotency-Key", "k", "Content-Type", formType)
	if byJSON.Status != http.StatusOK || byJSON.Body != byForm.Body {
		t.Errorf("by JSON: %d %s\nby form: %d %s", byJSON.Status, byJSON.Body, byForm.Status, byForm.Body)
	}
	v := byJSON.JSON(t)
	if v["object"] != "video" || v["status"] != "queued" || v["seconds"] != "4" || v["size"] != "1280x720" || byJSON.Header.Get("Openai-Poll-After-Ms") != "500" {
		t.Errorf("%v %s", byJSON.Header, byJSON.Body)
	}
	if got := w.workBody(fmt.Sprint(v["id"])); got != canonical {
		t.Errorf("the upstream gets %s", got)
	}
	withFile := w.Post("/v1/videos", formBody(t, append(plainFields[:2:2],
		[]string{"input_reference", "a b.png", "\x89PNG\r\n\x1a\n"}, []string{"metadata", `{"a":1}`})...), "Content-Type", formType)
	if withFile.Status != http.StatusOK {
		t.Fatalf("with a file: %d %s", withFile.Status, withFile.Body)
	}
	if !w.workItem(fmt.Sprint(withFile.JSON(t)["id"])).GetForm() || w.workItem(fmt.Sprint(v["id"])).GetForm() {
		t.Error("the work item does not say what the client sent")
	}
	want := `{"model":"sandbox-videos","prompt":"a cat","input_reference":{"image_url":"data:image/png;name=a%20b.png;base64,iVBORw0KGgo="},"metadata":{"a":1}}`
	if got := w.workBody(fmt.Sprint(withFile.JSON(t)["id"])); got != want {
		t.Errorf("the upstream gets %s\nwant %s", got, want)
	}
}

// TestVideosWithoutAPrompt checks that a request without a prompt reaches the upstream unchanged if
// the interface allows it.
func TestVideosWithoutAPrompt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const image = "https://example.com/a.png"
	for _, row := range []struct{ path, body string }{
		{"/v1/video/generations", `{"model":"sandbox-video"}`},
		{"/v1/video/generations", `{"model":"sandbox-video","prompt":"","image":"` + image + `"}`},
		{"/v1/videos", `{"model":"sandbox-videos","input_reference":"` + image + `"}`},
		{apitest.KlingImage, `{"model_name":"sandbox-kling","image":"` + image + `"}`},
		{apitest.JimengSubmit, `{"req_key":"sandbox-jimeng","image_urls":["` + image + `"]}`},
	} {
		a := w.Post(row.path, row.body)
		if a.Status != http.StatusOK {
			t.Errorf("%s %s: %d %s", row.path, row.body, a.Status, a.Body)
		} else if got := w.workBody(a.Header.Get("Genbus-Job-Id")); got != row.body {
			t.Errorf("%s: the upstream gets %s, want %s", row.path, got, row.body)
		}
	}
	several := `{"model":"sandbox-videos","images":["https://example.com/a.png","data:image/png;base64,aGk="],"prompt":"p"}` // as refusals of forms advise
	if a := w.Post("/v1/videos", several); a.Status != http.StatusOK || w.workBody(a.Header.Get("Genbus-Job-Id")) != several {
		t.Errorf("several pictures in JSON: %d %s", a.Status, a.Body)
	}
	file := formBody(t, plainFields[0], []string{"input_reference", "a.png", "\x89PNG\r\n\x1a\n"})
	if a := w.Post("/v1/videos", file, "Content-Type", formType); a.Status != http.StatusOK {
		t.Errorf("a form with a file: %d %s", a.Status, a.Body)
	}
	for path, body := range map[string]string{
		"/v1/videos": `{"model":"sandbox-videos"}`, apitest.KlingText: `{"model_name":"sandbox-kling"}`, apitest.JimengSubmit: `{"req_key":"sandbox-jimeng"}`,
	} {
		if a := w.Post(path, body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "prompt") {
			t.Errorf("%s without prompt and image: %d %s, want 400 that names the prompt", path, a.Status, a.Body)
		}
	}
}

// TestMalformedForms checks that invalid forms are rejected with an explanation.
func TestMalformedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.MaxBodyBytes = 8 << 10 })
	good := formBody(t, plainFields...)
	with := func(extra []string) string {
		return formBody(t, append(plainFields[:len(plainFields):len(plainFields)], extra)...)
	}
	for name, row := range map[string]struct {
		body, kind string
		status     int
		code, says string
	}{
		"no boundary":               {good, "multipart/form-data", 400, "invalid_request", "boundary"},
		"another boundary":          {good, "multipart/form-data; boundary=x", 400, "invalid_request", "form"},
		"cut in a value":            {good[:strings.Index(good, "a cat")+3], formType, 400, "invalid_request", "ends too early"},
		"without its end":           {good[:len(good)-8], formType, 400, "invalid_request", "ends too early"},
		"not a form at all":         {`{"model":"sandbox-videos","prompt":"a cat"}`, formType, 400, "invalid_request", "form"},
		"a field given twice":       {with([]string{"prompt", "a dog"}), formType, 400, "invalid_request", "prompt: is given more than once"},
		"a file that is unknown":    {with([]string{"mask", "m.png", "x"}), formType, 400, "invalid_request", "mask: is a file; only input_reference can be one"},
		"two files":                 {with([]string{"mask[]", "m.png", "x"}), formType, 400, "invalid_request", "send other files as URLs or data: URLs in a JSON body"},
		"an empty file":             {with([]string{"input_reference", "m.png", ""}), formType, 400, "invalid_request", "empty file"},
		"a list":                    {with([]string{"images[]", "x"}), formType, 400, "invalid_request", "send lists as JSON"},
		"too large":                 {with([]string{"input_reference", "m.png", strings.Repeat("x", 9<<10)}), formType, 413, "body_too_large", "8192"},
		"too large once it is JSON": {with([]string{"input_reference", "m.png", strings.Repeat("x", 7<<10)}), formType, 413, "body_too_large", "8192"},
		"no model":                  {formBody(t, []string{"prompt", "a cat"}), formType, 400, "invalid_request", "model"},
		"no prompt":                 {formBody(t, []string{"model", "sandbox-videos"}), formType, 400, "invalid_request", "prompt"},
		"another kind of form":      {"model=sandbox-videos&prompt=p", "application/x-www-form-urlencoded", 415, "unsupported_media_type", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Post("/v1/videos", row.body, "Content-Type", row.kind)
			if a.Status != row.status || a.ErrorCode(t) != row.code || !strings.Contains(a.Body, row.says) || a.Header.Get("Genbus-Job-Id") != "" {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	t.Run("too large and chunked", func(t *testing.T) {
		r := w.Request(http.MethodPost, "/v1/videos", with([]string{"input_reference", "m.png", strings.Repeat("x", 9<<10)}), "Content-Type", formType)
		r.ContentLength = -1
		res, err := w.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", res.StatusCode)
		}
	})
	stream, err := w.Broker.JetStream().Stream(t.Context(), w.Broker.Names().Work())
	if err != nil || stream.CachedInfo().State.Msgs != 0 {
		t.Errorf("accepted all the same: %+v, %v", stream.CachedInfo().State, err)
	}
}

// TestVideoObjectList checks pages by limit and after in both orders, as SDKs request them.
func TestVideoObjectList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made []string // newest first
	for range 5 {
		made = append([]string{w.NewVideoObject()}, made...)
	}
	ids := func(query string) (ids []string, more any) {
		t.Helper()
		a := w.Get("/v1/videos" + query)
		if a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, a.Status, a.Body)
		}
		page := a.JSON(t)
		data, _ := page["data"].([]any)
		for _, d := range data {
			m, _ := d.(map[string]any)
			ids = append(ids, fmt.Sprint(m["id"]))
		}
		if len(ids) > 0 && (page["first_id"] != ids[0] || page["last_id"] != ids[len(ids)-1]) {
			t.Errorf("%s: first_id %v, last_id %v", query, page["first_id"], page["last_id"])
		}
		return ids, page["has_more"]
	}
	w.Await("the list", func() bool { all, _ := ids(""); return len(all) == 5 })
	for query, row := range map[string]struct {
		want []string
		more bool
	}{
		"":                             {made, false},
		"?limit=2":                     {made[:2], true},
		"?limit=2&after=" + made[1]:    {made[2:4], true},
		"?limit=5":                     {made, false},
		"?order=desc&after=" + made[3]: {made[4:], false},
		"?after=" + made[4]:            {nil, false},
		"?order=asc&limit=1":           {made[4:], true},
		"?order=asc&after=" + made[1]:  {made[:1], false},
		"?order=&after=&limit=":        {made, false},
	} {
		got, more := ids(query)
		if diff := cmp.Diff(row.want, got); diff != "" || more != row.more {
			t.Errorf("%s: more %v (-want +got):\n%s", query, more, diff)
		}
	}
	for query, code := range map[string]string{
		"?limit=0": "invalid_request", "?limit=101": "invalid_request", "?limit=x": "invalid_request", "?order=new": "invalid_request",
		"?after=video_none": "task_not_found", "?after=" + strings.Replace(made[0], "video_", "chat_", 1): "task_not_found",
	} {
		if a := w.Get("/v1/videos" + query); a.Status < 400 || a.ErrorCode(t) != code {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}

// TestVideoObjectDelete checks that each path erases a task, and only for its tenant.
func TestVideoObjectDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants)
	acme, globex := []string{"Authorization", "Bearer key-acme"}, []string{"Authorization", "Bearer key-globex"}
	for path, body := range map[string]string{
		"/v1/videos/": `{"id":%q,"object":"video.deleted","deleted":true}`, "/genbus/v1/videos/": `{}`,
	} {
		id := w.NewVideoObject(acme...)
		w.letGo()
		if a := w.Do(http.MethodDelete, path+id, "", globex...); a.Status != http.StatusNotFound || a.ErrorCode(t) != "task_not_found" {
			t.Errorf("%s by another tenant: %d %s", path, a.Status, a.Body)
		}
		if a := w.Get("/v1/videos/"+id, acme...); a.Status != http.StatusOK {
			t.Errorf("%s: gone by another tenant's hand: %d %s", path, a.Status, a.Body)
		}
		want := body
		if strings.Contains(body, "%q") {
			want = fmt.Sprintf(body, id)
		}
		if a := w.Do(http.MethodDelete, path+id, "", acme...); a.Status != http.StatusOK || a.Body != want || a.Header.Get("Genbus-Job-Id") != id {
			t.Errorf("%s: %d %v %s", path, a.Status, a.Header, a.Body)
		}
		if a := w.Do(http.MethodDelete, path+id, "", acme...); a.Status != http.StatusNotFound || a.ErrorCode(t) != "task_not_found" {
			t.Errorf("%s again: %d %s", path, a.Status, a.Body)
		}
		if a := w.Get("/v1/videos/"+id, acme...); a.Status != http.StatusNotFound {
			t.Errorf("%s, then read: %d %s", path, a.Status, a.Body)
		}
	}
}

// letGo removes all work items, as consumers do after the end of jobs.
func (w *world) letGo() {
	w.T.Helper()
	for _, name := range []string{w.Broker.Names().Work(), w.Broker.Names().Wait()} {
		stream, err := w.Broker.JetStream().Stream(w.T.Context(), name)
		if err != nil {
			w.T.Fatal(err)
		}
		if err := stream.Purge(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
	}
}
