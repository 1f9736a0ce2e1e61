package videos

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

const noLimit = 32 << 20

// formOf returns a form with the boundary "b". Each part is given as its header, a blank line and
// its content, with \n for the header's CR LF.
func formOf(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		head, content, _ := strings.Cut(part, "\n\n")
		b.WriteString("--b\r\n" + strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + content + "\r\n")
	}
	return b.String() + "--b--\r\n"
}

func text(name, value string) string {
	return `Content-Disposition: form-data; name="` + name + "\"\n\n" + value
}

func fromForm(form string, limit int64) ([]byte, error) {
	return FromMultipart(multipart.NewReader(strings.NewReader(form), "b"), limit)
}

const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\r\n--not the boundary"

func file(header string) string {
	return "Content-Disposition: form-data; " + header + "\n\n" + png
}

func inJSON(head string) string {
	return `{"image_url":"data:` + head + `;base64,` + base64.StdEncoding.EncodeToString([]byte(png)) + `"}`
}

func TestFromMultipart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ form, want string }{
		"empty":         {formOf(), `{}`},
		"texts":         {formOf(text("prompt", "a \"cat\"\r\n猫"), text("model", "m"), text("seconds", "4"), text("size", "")), `{"prompt":"a \"cat\"\r\n猫","model":"m","seconds":"4","size":""}`},
		"typed text":    {formOf("Content-Disposition: form-data; name=prompt\nContent-Type: text/plain; charset=utf-8\n\np"), `{"prompt":"p"}`},
		"metadata":      {formOf(text("metadata", ` {"a": [1.0]}`), text("other", `{"a":1}`)), `{"metadata": {"a": [1.0]},"other":"{\"a\":1}"}`},
		"bad metadata":  {formOf(text("metadata", `{"a":1,"a":2}`)), `{"metadata":"{\"a\":1,\"a\":2}"}`},
		"metadata list": {formOf(text("metadata", `[1]`)), `{"metadata":"[1]"}`},
		"members": {formOf(text("metadata[style]", "x"), text("model", "m"), text("metadata[q]", "1"), text("input_reference[image_url]", "https://e.com/a.png")),
			`{"metadata":{"style":"x","q":"1"},"model":"m","input_reference":{"image_url":"https://e.com/a.png"}}`},
		"file id":                {formOf(text("input_reference[file_id]", "file-1")), `{"input_reference":{"file_id":"file-1"}}`},
		"URL":                    {formOf(text("input_reference", "https://e.com/a.png")), `{"input_reference":"https://e.com/a.png"}`},
		"reference as JSON":      {formOf(text("input_reference", `{"file_id":"file-1"}`)), `{"input_reference":{"file_id":"file-1"}}`},
		"reference as JSON file": {formOf("Content-Disposition: form-data; name=input_reference\nContent-Type: application/json\n\n{\"file_id\":\"file-1\"}"), `{"input_reference":{"file_id":"file-1"}}`},
		"file": {formOf(text("model", "m"), file("name=\"input_reference\"; filename=\"first frame.png\"\nContent-Type: image/png"), text("prompt", "p")),
			`{"model":"m","input_reference":` + inJSON("image/png;name=first%20frame.png") + `,"prompt":"p"}`},
		"file of an unknown type":    {formOf(file("name=\"input_reference\"; filename=\"anonymous_file\"\nContent-Type: application/octet-stream")), `{"input_reference":` + inJSON("image/png;name=anonymous_file") + `}`},
		"file without a type":        {formOf(file(`name="input_reference"; filename="a.jpg"`)), `{"input_reference":` + inJSON("image/png;name=a.jpg") + `}`},
		"file with a bad type":       {formOf(file("name=\"input_reference\"; filename=\"a.jpg\"\nContent-Type: png")), `{"input_reference":` + inJSON("image/png;name=a.jpg") + `}`},
		"file without a name":        {formOf(file("name=\"input_reference\"; filename=\"\"\nContent-Type: image/webp")), `{"input_reference":` + inJSON("image/webp") + `}`},
		"file without file name":     {formOf(file("name=\"input_reference\"\nContent-Type: image/webp")), `{"input_reference":` + inJSON("image/webp") + `}`},
		"octets without file name":   {formOf(file("name=\"input_reference\"\nContent-Type: application/octet-stream")), `{"input_reference":` + inJSON("image/png") + `}`},
		"file with folders":          {formOf(file("name=\"input_reference\"; filename=\"../../etc/a.png\"")), `{"input_reference":` + inJSON("image/png;name=a.png") + `}`},
		"file with another alphabet": {formOf(file("name=\"input_reference\"; filename=\"猫 \\\"%22.png\"")), `{"input_reference":` + inJSON("image/png;name=%E7%8C%AB%20%22%2522.png") + `}`},
		"file with parameters": {formOf(file("name=\"input_reference\"; filename=\"a.mp4\"\nContent-Type: video/mp4; codecs=\"avc1, mp4a\"; name=\"old\"")),
			`{"input_reference":` + inJSON("video/mp4;codecs=avc1%2C%20mp4a;name=a.mp4") + `}`},
		"preamble, epilogue and bare LF": {"hello\n--b \nContent-Disposition: form-data; name=a\n\n1\n--b--\t\nbye", `{"a":"1"}`},
		"quoted-printable":               {formOf("Content-Disposition: form-data; name=a\nContent-Transfer-Encoding: quoted-printable\n\na=3Db"), `{"a":"a=b"}`},
		"binary":                         {formOf("Content-Disposition: form-data; name=a\nContent-Transfer-Encoding: Binary\n\na"), `{"a":"a"}`},
		"64 fields":                      {formOf(manyFields(64)...), "{" + strings.TrimPrefix(strings.Join(manyMembers(64), ""), ",") + "}"},
		"long text":                      {formOf(text("prompt", strings.Repeat("x", 256<<10))), `{"prompt":"` + strings.Repeat("x", 256<<10) + `"}`},
		"longer data URL":                {formOf(text("input_reference[image_url]", "data:,"+strings.Repeat("x", 1<<20))), `{"input_reference":{"image_url":"data:,` + strings.Repeat("x", 1<<20) + `"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := fromForm(test.form, noLimit)
			if err != nil || string(got) != test.want {
				t.Errorf("got %.300s, %v\nwant %.300s", got, err, test.want)
			}
			slow, err := FromMultipart(multipart.NewReader(iotest.OneByteReader(strings.NewReader(test.form)), "b"), noLimit)
			if err != nil || !bytes.Equal(slow, got) {
				t.Errorf("byte by byte: %.300s, %v", slow, err)
			}
		})
	}
}

func manyFields(n int) (fields []string) {
	for i := range n {
		fields = append(fields, text(fmt.Sprint("f", i), "x"))
	}
	return fields
}

func manyMembers(n int) (members []string) {
	for i := range n {
		members = append(members, fmt.Sprintf(`,"f%d":"x"`, i))
	}
	return members
}

func TestFromMultipartRefused(t *testing.T) {
	t.Parallel()
	whole := formOf(text("model", "m"), file(`name="input_reference"; filename="a.png"`))
	for name, test := range map[string]struct{ form, want string }{
		"given twice":         {formOf(text("a", "1"), text("a", "2")), "a is given more than once; send lists as JSON"},
		"member given twice":  {formOf(text("a[b]", "1"), text("a[b]", "2")), "a[b] is given more than once; send lists as JSON"},
		"text and object":     {formOf(text("a", "1"), text("a[b]", "2")), "a[b] is given more than once; send lists as JSON"},
		"object and text":     {formOf(text("a[b]", "1"), text("a", "2")), "a is given more than once; send lists as JSON"},
		"file and object":     {formOf(file(`name="input_reference"; filename="a.png"`), text("input_reference[file_id]", "x")), "input_reference[file_id] is given more than once; send lists as JSON"},
		"list":                {formOf(text("images[]", "1")), "images[] is a list; send lists as JSON"},
		"deep":                {formOf(text("a[b][c]", "1")), "a[b][c] is nested deeper than one level; send the request as JSON"},
		"open bracket":        {formOf(text("a[b", "1")), "a[b has brackets in a wrong place; name[key] is the form of a member"},
		"close bracket":       {formOf(text("a]", "1")), "a] has brackets in a wrong place; name[key] is the form of a member"},
		"no name before":      {formOf(text("[a]", "1")), "[a] has brackets in a wrong place; name[key] is the form of a member"},
		"text after":          {formOf(text("a[b]c", "1")), "a[b]c has brackets in a wrong place; name[key] is the form of a member"},
		"bracket in bracket":  {formOf(text("a[[b]]", "1")), "a[[b]] has brackets in a wrong place; name[key] is the form of a member"},
		"no name":             {formOf("Content-Disposition: form-data\n\n1"), "the body is a form with a part that has no name"},
		"empty name":          {formOf(text("", "1")), "the body is a form with a part that has no name"},
		"no disposition":      {formOf("Content-Type: text/plain\n\n1"), "the body is a form with a part that has no name"},
		"attachment":          {formOf("Content-Disposition: attachment; name=a\n\n1"), "the body is a form with a part that has no name"},
		"long name":           {formOf(text(strings.Repeat("n", 129), "1")), "the body is a form with a field name of 129 bytes; the limit is 128"},
		"name with a tab":     {formOf(text("a\tb", "1")), "the body is a form with a field name that is not plain text"},
		"name not UTF-8":      {formOf(text("a\xff", "1")), "the body is a form with a field name that is not plain text"},
		"65 fields":           {formOf(manyFields(65)...), "the body is a form of more than 64 fields"},
		"text too long":       {formOf(text("prompt", strings.Repeat("x", 256<<10+1))), "prompt is longer than 262144 bytes"},
		"long data elsewhere": {formOf(text("prompt", "data:,"+strings.Repeat("x", 256<<10))), "prompt is longer than 262144 bytes"},
		"long reference":      {formOf(text("input_reference", strings.Repeat("x", 256<<10+1))), "input_reference is longer than 262144 bytes"},
		"long half object":    {formOf(text("input_reference", "{"+strings.Repeat(" ", 256<<10))), "input_reference is longer than 262144 bytes"},
		"long member":         {formOf(text("input_reference[image_url]", "{"+strings.Repeat(" ", 256<<10)+"}")), "input_reference[image_url] is longer than 262144 bytes"},
		"text not UTF-8":      {formOf(text("prompt", "secret\xff")), "prompt is not valid UTF-8"},
		"other file":          {formOf(file(`name="video"; filename="a.mp4"`)), "video is a file; only input_reference can be one; send other files as URLs or data: URLs in a JSON body"},
		"file in a member":    {formOf(file(`name="input_reference[image_url]"; filename="a.png"`)), "input_reference[image_url] is a file; only input_reference can be one; send other files as URLs or data: URLs in a JSON body"},
		"two files": {formOf(file(`name="input_reference"; filename="a.png"`), file(`name="input_reference"; filename="b.png"`)),
			"input_reference is given more than once; a form has one file; send other files as URLs or data: URLs in a JSON body"},
		"a list of files":   {formOf(file(`name="input_reference[]"; filename="a.png"`)), "input_reference[] is a file; only input_reference can be one; send other files as URLs or data: URLs in a JSON body"},
		"numbered files":    {formOf(file(`name="images[0]"; filename="a.png"`)), "images[0] is a file; only input_reference can be one; send other files as URLs or data: URLs in a JSON body"},
		"a deep file":       {formOf(file(`name="images[0][file]"; filename="a.png"`)), "images[0][file] is a file; only input_reference can be one; send other files as URLs or data: URLs in a JSON body"},
		"empty file":        {formOf("Content-Disposition: form-data; name=input_reference; filename=a.png\n\n"), "input_reference is an empty file"},
		"long file name":    {formOf(file(`name="input_reference"; filename="` + strings.Repeat("a", 256) + `"`)), "input_reference has a file name longer than 255 bytes or with control characters"},
		"tab in file name":  {formOf(file("name=\"input_reference\"; filename=\"a\tb\"")), "input_reference has a file name longer than 255 bytes or with control characters"},
		"Base64 part":       {formOf("Content-Disposition: form-data; name=a\nContent-Transfer-Encoding: base64\n\nYQ=="), "a has a transfer encoding that forms do not support; send the raw bytes"},
		"broken encoding":   {formOf("Content-Disposition: form-data; name=a\nContent-Transfer-Encoding: quoted-printable\n\nsecret\x01"), "a cannot be read as multipart/form-data"},
		"broken header":     {"--b\r\nsecret\r\n\r\n1\r\n--b--", "the body cannot be read as multipart/form-data"},
		"nothing":           {"", "the body ends too early: the form's last boundary is missing"},
		"another boundary":  {"--c\r\n\r\n--c--", "the body ends too early: the form's last boundary is missing"},
		"no last boundary":  {strings.TrimSuffix(whole, "\r\n--b--\r\n"), "input_reference ends too early: the form's last boundary is missing"},
		"cut last boundary": {strings.TrimSuffix(whole, "--\r\n"), "the body ends too early: the form's last boundary is missing"},
	} {
		raw, err := fromForm(test.form, noLimit)
		if e, ok := errors.AsType[*body.FieldError](err); !ok || raw != nil || e.Error() != test.want {
			t.Errorf("%s: got %.100s, %v\nwant %s", name, raw, err, test.want)
		}
	}
}

func TestFromMultipartLimit(t *testing.T) {
	t.Parallel()
	form := formOf(text("prompt", strings.Repeat("p", 500)), file(`name="input_reference"; filename="a.png"`), text("a[b]", "c"))
	whole, err := fromForm(form, noLimit)
	if err != nil {
		t.Fatal(err)
	}
	for limit := int64(-1); limit < int64(len(whole)); limit++ {
		_, err := fromForm(form, limit)
		if e, ok := errors.AsType[*TooLargeError](err); !ok || e.Limit != limit || !strings.Contains(e.Error(), fmt.Sprint(limit)) {
			t.Fatalf("limit %d of %d: %v", limit, len(whole), err)
		}
	}
	if got, err := fromForm(form, int64(len(whole))); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("limit %d: %v", len(whole), err)
	}
	_, err = FromMultipart(multipart.NewReader(endless(form), "b"), noLimit)
	if e, ok := errors.AsType[*TooLargeError](err); !ok || e.Limit != noLimit {
		t.Errorf("an endless file: %v", err)
	}
}

// TestFromMultipartMemory checks that refusing a text of control characters, which take six bytes
// in JSON, needs at most six times the limit of memory. It is not parallel because it measures the
// whole process.
func TestFromMultipartMemory(t *testing.T) {
	const limit = 4 << 20
	const most = 6 * limit
	many := strings.Repeat("\x01", limit-100)
	for name, form := range map[string]string{
		"control characters":        formOf(text("input_reference", many)),
		"control characters within": formOf(text("input_reference[image_url]", "data:,"+many)),
		"no JSON":                   formOf(text("input_reference", "{"+many)),
		"quotes":                    formOf(text("input_reference", "data:,"+strings.Repeat(`"`, len(many)))),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		raw, err := fromForm(form, limit)
		runtime.ReadMemStats(&after)
		if raw != nil || err == nil {
			t.Errorf("%s: taken", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d bytes were allocated, at most %d are allowed", name, took, most)
		}
	}
}

// TestEscapes checks the predicted size of a text in JSON.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for c := range utf8.RuneSelf {
		plain := []byte{'a', byte(c), 0xe7, 0x8c, 0xab}
		quoted, err := jsontext.AppendQuote(nil, plain)
		if want := int64(len(quoted) - len(`""`) - len(plain)); err != nil || escapes(plain) != want {
			t.Errorf("%q grows by %d bytes, want %d (%v)", plain, escapes(plain), want, err)
		}
	}
}

func endless(form string) io.Reader {
	cut := strings.Index(form, "PNG")
	return io.MultiReader(strings.NewReader(form[:cut]), zeros{})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestFromMultipartBrokenRequest checks that errors of the connection and of the server's limit are
// passed on, except if the form breaks off within a part's header.
func TestFromMultipartBrokenRequest(t *testing.T) {
	t.Parallel()
	form := formOf(text("prompt", "secret"), file(`name="input_reference"; filename="a.png"`))
	for cut := range len(form) - len("\r\n") {
		limited := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(form)), int64(cut))
		late := io.MultiReader(strings.NewReader(form[:cut]), iotest.ErrReader(os.ErrDeadlineExceeded))
		short := io.MultiReader(strings.NewReader(form[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF))
		for request, is := range map[io.Reader]func(error) bool{
			limited: func(err error) bool { _, ok := errors.AsType[*http.MaxBytesError](err); return ok },
			late:    func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) },
			short:   isFieldError,
		} {
			_, err := FromMultipart(multipart.NewReader(request, "b"), noLimit)
			if !is(err) && (!isFieldError(err) || !withinHeader(form[:cut])) || strings.Contains(err.Error(), "secret") {
				t.Errorf("cut after %q: %v", form[:cut], err)
			}
		}
	}
}

func isFieldError(err error) bool {
	_, ok := errors.AsType[*body.FieldError](err)
	return ok
}

func withinHeader(form string) bool {
	return strings.LastIndex(form, "\r\n\r\n") < strings.LastIndex(form, "--b\r\n")
}

// FuzzFromMultipart checks that an accepted form yields a JSON object within the limit, and that
// its file reaches the upstream unchanged.
func FuzzFromMultipart(f *testing.F) {
	const limit = 64 << 10
	f.Add(formOf(text("model", "m"), text("metadata[a]", "b"), text("metadata", "{}"), file("name=\"input_reference\"; filename=\"a b.png\"\nContent-Type: image/png")))
	f.Add(formOf(text("input_reference[image_url]", "data:image/png;name=x;base64,aGVsbG8="), text("seconds", "4")))
	f.Add(formOf(file("name=\"input_reference\"; filename=\"\\\"\xff%.png\"\nContent-Type: video/mp4; codecs=\"avc1, x\"")))
	f.Add(formOf("Content-Disposition: form-data; name=a\nContent-Transfer-Encoding: quoted-printable\n\na=3Db"))
	f.Add("hello\n--b \nContent-Disposition: form-data; name*=utf-8''a\n\n1\n--b--\t\nbye")
	f.Fuzz(func(t *testing.T, form string) {
		raw, err := fromForm(form, limit)
		if err != nil {
			if raw != nil || err.Error() == "" {
				t.Errorf("body %q beside %v", raw, err)
			}
			return
		}
		var members map[string]any
		if len(raw) > limit || json.Unmarshal(raw, &members) != nil {
			t.Fatalf("%q became %q", form, raw)
		}
		checkFile(t, raw)
	})
}

// checkFile compares the file in a body with the one in the form sent upstream.
func checkFile(t *testing.T, raw []byte) {
	t.Helper()
	d := body.Parse(raw)
	ref := readReference(d.Member(inputReference))
	if !isDataURL(ref.url) {
		return
	}
	out, contentType, err := newClient(nil, upstream.Options{}).request(upstream.VideoCreate{JobID: "video_1", Body: d})
	if (err == nil) != (checkDataURL(ref.url) == "") {
		t.Fatalf("%q: %v", ref.url, err)
	}
	if err != nil {
		return
	}
	file, _ := parseDataURL(ref.url)
	var content bytes.Buffer
	if err := file.decode(&content); err != nil {
		t.Fatal(err)
	}
	for _, part := range readForm(t, contentType, bytes.NewReader(out)) {
		if part.Name == inputReference && (part.Content != content.String() || part.ContentType != file.contentType() || part.FileName == "") {
			t.Errorf("%q was sent as %+v", ref.url, part)
		}
	}
}

// TestFileIsEqualBothWays checks that odd but legal part headers survive the round trip.
func TestFileIsEqualBothWays(t *testing.T) {
	t.Parallel()
	content := make([]byte, 100_000)
	for i := range content {
		content[i] = byte(i * i >> 3)
	}
	for _, name := range []string{"a.png", "first frame.png", `a"b\c.png`, "a;b,c=d.png", "a%20b%zz.png", "猫.png", "caf\xe9.png", "input_reference"} {
		for _, media := range []string{"image/png", "video/mp4; codecs=\"avc1, mp4a\"", "image/vnd.x+y", "text/plain; charset=utf-8"} {
			var form bytes.Buffer
			w := multipart.NewWriter(&form)
			part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(inputReference, name)}, "Content-Type": {media}})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = part.Write(content)
			_ = w.Close()
			raw, err := FromMultipart(multipart.NewReader(&form, w.Boundary()), noLimit)
			if err != nil {
				t.Errorf("%q %q: %v", name, media, err)
				continue
			}
			out, contentType, err := newClient(nil, upstream.Options{}).request(upstream.VideoCreate{JobID: "video_1", Body: body.Parse(raw)})
			if err != nil {
				t.Errorf("%q %q: %v", name, media, err)
				continue
			}
			want := []sentPart{{Name: inputReference, FileName: name, ContentType: media, Content: string(content)}}
			if diff := cmp.Diff(want, readForm(t, contentType, bytes.NewReader(out))); diff != "" {
				t.Errorf("%q %q (-want +got):\n%.500s", name, media, diff)
			}
		}
	}
}

// BenchmarkFromMultipart reads a form with a file of 3 MiB.
func BenchmarkFromMultipart(b *testing.B) {
	form := formOf(text("model", "m"), text("prompt", "p"), "Content-Disposition: form-data; name=input_reference; filename=a.png\n\n"+strings.Repeat("0123456789ab", 1<<18))
	b.SetBytes(int64(len(form)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fromForm(form, noLimit); err != nil {
			b.Fatal(err)
		}
	}
}

// TestABodyThatIsCutOffIsNoForm checks that a truncated stored body is not submitted as a form,
// which would be paid for.
func TestABodyThatIsCutOffIsNoForm(t *testing.T) {
	t.Parallel()
	const file = "data:image/png;base64,aGk="
	whole := `{"model":"m","input_reference":"` + file + `","prompt":"a dog"}`
	if _, _, err := asForm("video_1", body.Trusted([]byte(whole)), file); err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if out, _, err := asForm("video_1", body.Trusted([]byte(whole[:cut])), file); err == nil {
			t.Errorf("%s is the form %s", whole[:cut], out)
		}
	}
}
