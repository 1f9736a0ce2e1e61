package videos

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// TestRequestJSON checks that JSON is sent byte for byte unless it must be rewritten.
func TestRequestJSON(t *testing.T) {
	t.Parallel()
	const (
		asText   = ` {"model" : "m","input_reference":"https://e.com/a.png" ,"seconds":4.0}`
		inObject = `{"input_reference":{ "image_url" : "https:\/\/e.com\/a.png" },"seconds":"4"}`
		byFile   = `{"input_reference":{"file_id":"file-1"}}`
		mixed    = `{"input_reference":{"image_url":"https://e.com/a.png","file_id":"file-1"}}`
		noURL    = `{"input_reference":"file-1"}`
		dataToo  = `{"input_reference":{"image_url":"data:image/png;base64,aGVsbG8=","file_id":"file-1"}}`
	)
	object, text := upstream.Options{InputReference: "object"}, upstream.Options{InputReference: "string"}
	gateway := upstream.Options{Gateway: true, InputReference: "string"}
	for _, test := range []struct {
		opts     upstream.Options
		in, want string
	}{
		{upstream.Options{}, asText, asText},
		{upstream.Options{}, inObject, inObject},
		{object, asText, ` {"model" : "m","input_reference":{"image_url":"https://e.com/a.png"} ,"seconds":4.0}`},
		{object, inObject, inObject},
		{object, byFile, byFile},
		{object, noURL, noURL},
		{object, `{"input_reference":null}`, `{"input_reference":null}`},
		{object, `{"model":"m"}`, `{"model":"m"}`},
		{text, asText, asText},
		{text, inObject, `{"input_reference":"https:\/\/e.com\/a.png","seconds":"4"}`},
		{text, `{"input_reference":{"image_url":"https://e.com/a.png","file_id":null}}`, `{"input_reference":"https://e.com/a.png"}`},
		{text, byFile, byFile},
		{text, mixed, mixed},
		{text, dataToo, dataToo},
		{gateway, asText, ` {"model" : "m","input_reference":"https://e.com/a.png" ,"seconds":"4.0"}`},
		{gateway, inObject, `{"input_reference":"https:\/\/e.com\/a.png","seconds":"4"}`},
		{gateway, `{"seconds":null}`, `{"seconds":null}`},
	} {
		client := newClient(nil, test.opts)
		got, contentType, err := client.request(upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(test.in))})
		if err != nil || contentType != "" || string(got) != test.want {
			t.Errorf("%+v %s:\n got %s (%q, %v)\nwant %s", test.opts, test.in, got, contentType, err, test.want)
		}
	}
}

type sentPart struct{ Name, FileName, ContentType, Content string }

func readForm(t testing.TB, contentType string, body io.Reader) []sentPart {
	t.Helper()
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "multipart/form-data" {
		t.Fatalf("content type %q: %v", contentType, err)
	}
	reader := multipart.NewReader(body, params["boundary"])
	var parts []sentPart
	for {
		part, err := reader.NextPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, sentPart{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(content)})
	}
}

func TestRequestForm(t *testing.T) {
	t.Parallel()
	const in = `{"model":"m","prompt":"a \"cat\"\r\n\u732b","seconds":4.50,"hd":true,"input_reference":%,"none":null,` +
		`"metadata":{"a": [1, "x"]},"tags":["a"],"od\"d":"v"}`
	want := []sentPart{
		{Name: "model", Content: "m"},
		{Name: "prompt", Content: "a \"cat\"\r\n猫"},
		{Name: "seconds", Content: "4.50"},
		{Name: "hd", Content: "true"},
		{Name: "input_reference", FileName: "first frame.png", ContentType: "image/png", Content: "hello"},
		{Name: "metadata", Content: `{"a": [1, "x"]}`},
		{Name: "tags", Content: `["a"]`},
		{Name: `od"d`, Content: "v"},
	}
	const file = `"data:image/png;name=first%20frame.png;base64,aGVsbG8="`
	for _, reference := range []string{file, `{"image_url":` + file + `}`, `{"file_id":null,"image_url":` + file + `}`} {
		for _, option := range []string{"", "object"} {
			client := newClient(nil, upstream.Options{InputReference: option, Gateway: true})
			create := upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(strings.Replace(in, "%", reference, 1)))}
			sent, contentType, err := client.request(create)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, readForm(t, contentType, bytes.NewReader(sent))); diff != "" {
				t.Errorf("%s: parts (-want +got):\n%s", reference, diff)
			}
		}
	}
}

// TestAFileAsAString checks that an upstream that expects a string gets JSON without the file's
// name.
func TestAFileAsAString(t *testing.T) {
	t.Parallel()
	const file = `"data:image/png;name=first%20frame.png;base64,aGVsbG8="`
	for _, reference := range []string{file, `{"image_url":` + file + `}`} {
		client := newClient(nil, upstream.Options{InputReference: "string"})
		got, contentType, err := client.request(upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","input_reference":` + reference + `}`))})
		if want := `{"model":"m","input_reference":"data:image/png;base64,aGVsbG8="}`; err != nil || string(got) != want || contentType != "" {
			t.Errorf("%s: %s (%s), %v", reference, got, contentType, err)
		}
	}
}

// TestRequestBody checks which creates are forms, and their parts.
func TestRequestBody(t *testing.T) {
	t.Parallel()
	const (
		plain = `{"model":"m","seconds":4}`
		url   = `{"model":"m","input_reference":{"image_url":"https://e.com/a.png"}}`
		byID  = `{"model":"m","input_reference":{"file_id":"file-1","image_url":null}}`
		file  = `{"model":"m","input_reference":{"image_url":"data:image/png;name=a.png;base64,aGVsbG8="}}`
	)
	model := sentPart{Name: "model", Content: "m"}
	upload := sentPart{Name: "input_reference", FileName: "a.png", ContentType: "image/png", Content: "hello"}
	for _, test := range []struct {
		opts upstream.Options
		form bool // what the client sent
		in   string
		json string // what is sent, or
		want []sentPart
	}{
		// As the client sent it.
		{upstream.Options{}, false, plain, plain, nil},
		{upstream.Options{}, true, plain, "", []sentPart{model, {Name: "seconds", Content: "4"}}},
		{upstream.Options{}, true, url, "", []sentPart{model, {Name: "input_reference[image_url]", Content: "https://e.com/a.png"}}},
		{upstream.Options{}, true, byID, "", []sentPart{model, {Name: "input_reference[file_id]", Content: "file-1"}}},
		{upstream.Options{}, true, file, "", []sentPart{model, upload}},
		{upstream.Options{}, false, file, "", []sentPart{model, upload}},
		// Other options describe JSON.
		{upstream.Options{Gateway: true}, true, plain, `{"model":"m","seconds":"4"}`, nil},
		{upstream.Options{InputReference: "string"}, true, url, `{"model":"m","input_reference":"https://e.com/a.png"}`, nil},
		{upstream.Options{InputReference: "string"}, true, file, `{"model":"m","input_reference":"data:image/png;base64,aGVsbG8="}`, nil},
		{upstream.Options{InputReference: "object"}, true, file, "", []sentPart{model, upload}},
		// As the operator says.
		{upstream.Options{Body: "multipart"}, false, plain, "", []sentPart{model, {Name: "seconds", Content: "4"}}},
		{upstream.Options{Body: "multipart", Gateway: true}, false, file, "", []sentPart{model, upload}},
		{upstream.Options{Body: "multipart", InputReference: "string"}, false, url, "", []sentPart{model, {Name: "input_reference", Content: "https://e.com/a.png"}}},
		{upstream.Options{Body: "json"}, true, plain, plain, nil},
		{upstream.Options{Body: "json"}, true, file, `{"model":"m","input_reference":{"image_url":"data:image/png;base64,aGVsbG8="}}`, nil},
		{upstream.Options{Body: "json"}, false, `{"input_reference":"data:image/png;name=a.png;base64,aGVsbG8="}`, `{"input_reference":"data:image/png;base64,aGVsbG8="}`, nil},
		{upstream.Options{Body: "json", InputReference: "object"}, false, `{"input_reference":"data:,a"}`, `{"input_reference":{"image_url":"data:application/octet-stream,a"}}`, nil},
		{upstream.Options{Body: "json", InputReference: "string"}, true, file, `{"model":"m","input_reference":"data:image/png;base64,aGVsbG8="}`, nil},
	} {
		sent, contentType, err := newClient(nil, test.opts).request(upstream.VideoCreate{JobID: "video_1", Form: test.form, Body: body.Parse([]byte(test.in))})
		switch {
		case err != nil:
			t.Errorf("%+v %s: %v", test.opts, test.in, err)
		case test.want == nil:
			if string(sent) != test.json || contentType != "" {
				t.Errorf("%+v %s: sent %s (%s), want %s", test.opts, test.in, sent, contentType, test.json)
			}
		default:
			if diff := cmp.Diff(test.want, readForm(t, contentType, bytes.NewReader(sent))); diff != "" {
				t.Errorf("%+v %s: parts (-want +got):\n%s", test.opts, test.in, diff)
			}
		}
	}
}

// TestRequestIsEqualEachTime checks that every submission of a job has the same bytes, which some
// upstreams compare for one Idempotency-Key.
func TestRequestIsEqualEachTime(t *testing.T) {
	t.Parallel()
	first, firstType, err := newClient(nil, upstream.Options{}).request(aFileCreate)
	if err != nil {
		t.Fatal(err)
	}
	again := aFileCreate
	again.Resubmission = true
	second, secondType, err := newClient(nil, upstream.Options{}).request(again)
	if err != nil || !bytes.Equal(first, second) || firstType != secondType {
		t.Errorf("%q became %q, %v", firstType, secondType, err)
	}
	other := aFileCreate
	other.JobID = "video_2"
	if _, otherType, _ := newClient(nil, upstream.Options{}).request(other); otherType == firstType {
		t.Error("two jobs have the same boundary")
	}
}

// TestBoundaryCannotBeForeseen checks that a body with the boundary of an earlier body gets a
// different boundary.
func TestBoundaryCannotBeForeseen(t *testing.T) {
	t.Parallel()
	const member = `","input_reference":"data:image/png;base64,aGVsbG8="}`
	prompt := "a cat"
	for range 3 {
		sent, contentType, err := newClient(nil, upstream.Options{}).request(upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"prompt":"` + prompt + member))})
		if err != nil {
			t.Fatal(err)
		}
		if parts := readForm(t, contentType, bytes.NewReader(sent)); len(parts) != 2 {
			t.Fatalf("parts = %+v", parts)
		}
		_, params, _ := mime.ParseMediaType(contentType)
		prompt = `\r\n--` + params["boundary"] + `\r\nContent-Disposition: form-data; name=model\r\n\r\nexpensive\r\n`
	}
}

// TestRequestUnreadable checks that an invalid body that bypassed Check is neither sent nor quoted.
func TestRequestUnreadable(t *testing.T) {
	t.Parallel()
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
	for in, want := range map[string]string{
		`{"input_reference":"data:image/png;base64,*secret*"}`: "input_reference is a data: URL without valid Base64",
		`{"input_reference":{"image_url":"data:secret"}}`:      "input_reference is a data: URL without a comma before its data",
	} {
		sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(in))})
		wantVerdict(t, sub, upstream.RefusedForGood, false)
		if sub.Err.Message != want || sub.Err.Scope != upstream.ScopeRequest {
			t.Errorf("error = %+v, want %q", sub.Err, want)
		}
	}
}

// BenchmarkRequestForm converts a body of 4 MiB to a form.
func BenchmarkRequestForm(b *testing.B) {
	raw := []byte(`{"model":"m","prompt":"p","input_reference":{"image_url":"data:image/png;base64,` + strings.Repeat("aGVs", 1<<20) + `"}}`)
	client := newClient(nil, upstream.Options{})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := client.request(upstream.VideoCreate{JobID: "video_1", Body: body.Trusted(raw)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequestJSON converts a body of 100 KB for a gateway, rewriting two members.
func BenchmarkRequestJSON(b *testing.B) {
	raw := []byte(`{"model":"m","prompt":"` + strings.Repeat("a word ", 100<<10/7) + `","seconds":4,"input_reference":{"image_url":"https://e.com/a.png"}}`)
	client := newClient(nil, upstream.Options{Gateway: true, InputReference: "string"})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := client.request(upstream.VideoCreate{JobID: "video_1", Body: body.Trusted(raw)}); err != nil {
			b.Fatal(err)
		}
	}
}
