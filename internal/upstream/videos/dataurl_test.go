package videos

import (
	"bytes"
	"maps"
	"mime"
	"strings"
	"testing"
)

func TestDataURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct{ contentType, fileName, data string }{
		"data:image/png;base64,aGVsbG8=":                                      {"image/png", "input_reference.png", "hello"},
		"DATA:Image/PNG;BASE64,aGVsbG8":                                       {"image/png", "input_reference.png", "hello"},
		"data:image/jpeg;name=first%20frame.jpg;base64,aGVsbG8=":              {"image/jpeg", "first frame.jpg", "hello"},
		"data:image/jpeg;Name=%E7%8C%AB.jpg;base64,aGVsbG8=":                  {"image/jpeg", "猫.jpg", "hello"},
		"data:image/webp;name=..%2Fa%2Fb.webp;base64,aGVsbG8=":                {"image/webp", "b.webp", "hello"},
		"data:image/webp;name=a%0D%0Ab;base64,aGVsbG8=":                       {"image/webp", "input_reference.webp", "hello"},
		"data:image/gif;name=" + strings.Repeat("a", 256) + ";base64,aGVsbG8": {"image/gif", "input_reference.gif", "hello"},
		"data:video/mp4;name=..;base64,aGVsbG8=":                              {"video/mp4", "input_reference.mp4", "hello"},
		"data:video/mp4;codecs=%22avc1%22%2C%20x;base64,aGVsbG8=":             {`video/mp4; codecs="\"avc1\", x"`, "input_reference.mp4", "hello"},
		"data:image/png;;x;=y;a=%zz;base64,aGVsbG8=":                          {`image/png; x=""`, "input_reference.png", "hello"},
		"data:;base64,aGVsbG8=":                                               {"application/octet-stream", "input_reference.bin", "hello"},
		"data:,hello":                                                         {"application/octet-stream", "input_reference.bin", "hello"},
		"data:text/plain,a%20b":                                               {"text/plain", "input_reference.bin", "a b"},
		"data:video/quicktime;base64,-_-_":                                    {"video/quicktime", "input_reference.mov", "\xfb\xff\xbf"},
		"data:video/webm;base64,aGVs%62G8%3D":                                 {"video/webm", "input_reference.webm", "hello"},
		"data:image/png;base64,aGVs\nbG8=":                                    {"image/png", "input_reference.png", "hello"},
	} {
		d, err := parseDataURL(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		var data bytes.Buffer
		err = d.decode(&data)
		if err != nil || d.contentType() != want.contentType || d.fileName() != want.fileName || data.String() != want.data {
			t.Errorf("%s: got %q, %q, %q, %v", in, d.contentType(), d.fileName(), &data, err)
		}
	}
}

func TestDataURLRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://example.com/a.png":                   "is not a data: URL",
		"data:image/png;base64":                       "is a data: URL without a comma before its data",
		"data:" + strings.Repeat("a/", 4096) + ",x":   "is a data: URL without a comma before its data",
		"data:png;base64,aGVsbG8=":                    "is a data: URL with an invalid media type; write it like image/png",
		"data:image/png\r\nX-Evil: 1;base64,aGVsbG8=": "is a data: URL with an invalid media type; write it like image/png",
		"data:image/png;base64,":                      "is a data: URL without data",
		"data:image/png;base64,a":                     "is a data: URL without valid Base64",
		"data:image/png;base64,aGVsbG8*":              "is a data: URL without valid Base64",
		"data:image/png;base64,aGVs=bG8=":             "is a data: URL without valid Base64",
		"data:image/png;base64,+/-_":                  "is a data: URL without valid Base64",
		"data:image/png;base64,%zz":                   "is a data: URL with a broken percent-encoding",
	} {
		if got := checkDataURL(in); got != want {
			t.Errorf("%.60s: got %q, want %q", in, got, want)
		}
	}
}

// FuzzDataURL checks that a parsed data: URL that is valid in a form survives a round trip.
func FuzzDataURL(f *testing.F) {
	f.Add("data:image/png;name=a%20b.png;charset=x;base64,aGVsbG8=")
	f.Add("data:video/mp4;codecs=%22avc1%22%2C%20x;base64,-_-_")
	f.Add("data:text/plain,a%20b")
	f.Add("data:image/png\r\nX: y;base64,aGVsbG8")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDataURL(s)
		if err != nil {
			return
		}
		for _, text := range []string{d.contentType(), d.fileName()} {
			if text == "" || strings.ContainsAny(text, "\r\n\x00") {
				t.Errorf("%q cannot stand in a part's header", text)
			}
		}
		if _, _, err := mime.ParseMediaType(d.contentType()); err != nil {
			t.Errorf("content type %q: %v", d.contentType(), err)
		}
		head := d.head()
		if strings.ContainsAny(head, "\"\\") || strings.ContainsFunc(head, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("head %q cannot stand in JSON", head)
		}
		again, err := parseDataURL(head + "aGVsbG8=")
		if len(head) > maxDataHead {
			return
		}
		if err != nil || again.mediaType != d.mediaType || again.name != d.name || !maps.Equal(again.params, d.params) {
			t.Errorf("%q became %+v, %v", head, again, err)
		}
	})
}
