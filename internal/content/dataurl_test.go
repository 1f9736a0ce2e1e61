package content_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
)

func TestDataURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	standard := base64.StdEncoding.EncodeToString(video)
	for name, s := range map[string]string{
		"standard":        "data:video/mp4;base64," + standard,
		"unpadded":        "data:video/mp4;base64," + strings.TrimRight(standard, "="),
		"URL-safe":        "data:video/mp4;base64," + base64.URLEncoding.EncodeToString(video),
		"raw URL-safe":    "DATA:video/mp4;Base64," + base64.RawURLEncoding.EncodeToString(video),
		"escaped":         "data:video/mp4;base64," + url.QueryEscape(standard),
		"lines":           "data:video/mp4;base64,\r\n" + strings.ReplaceAll(standard, "A", "A\n") + "\n",
		"parameters":      "data:video/mp4;name=a.mp4; base64 ," + standard + "#fragment",
		"percent":         "data:video/mp4," + strings.ReplaceAll(url.QueryEscape(string(video)), "+", "%20"),
		"no type":         "data:;base64," + standard,
		"no type, escape": "data:," + strings.ReplaceAll(url.QueryEscape(string(video)), "+", "%20"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, data, err := w.open(w.at(s), content.Request{})
			if err != nil || !bytes.Equal(data, video) {
				t.Fatalf("read %d bytes, %v", len(data), err)
			}
			if f.Status != 200 || f.Length != int64(len(video)) || !strings.HasPrefix(f.Type, "video/mp4") {
				t.Errorf("got %+v", f)
			}
			f, data, err = w.open(w.at(s), content.Request{Range: "bytes=70000-70099"})
			if err != nil || f.Status != http.StatusPartialContent || f.Range != "bytes 70000-70099/100000" || !bytes.Equal(data, video[70000:70100]) {
				t.Errorf("the part: %+v, %d bytes, %v", f, len(data), err)
			}
			f, data, err = w.open(w.at(s), content.Request{HeadOnly: true})
			if err != nil || f.Length != int64(len(video)) || len(data) != 0 {
				t.Errorf("the head: %+v, %d bytes, %v", f, len(data), err)
			}
		})
	}
}

func TestBadDataURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []string{
		"data:", "data:video/mp4;base64", "data:video/mp4;base64,", "data:,", "data:video/mp4;base64,A", "data:video/mp4;base64,AA=A",
		"data:video/mp4;base64,AA*A", "data:video/mp4,%", "data:video/mp4,ab%1", "data:video/mp4,%zz", "data:video/mp4;base64,%zz",
		"data:text/html,<p>", "data:application/json,{}", "data:,{}",
	} {
		w.wantError(w.at(s), errcode.ContentUnavailable, "the data URL ")
	}
}
