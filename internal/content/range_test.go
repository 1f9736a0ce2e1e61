package content_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
)

// serveWhole ignores ranges, as many upstreams do.
func serveWhole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("Content-Length", fmt.Sprint(len(video)))
	w.Header().Set("ETag", `"v1"`)
	w.Header().Set("Last-Modified", videoTime.Format(http.TimeFormat))
	_, _ = w.Write(video)
}

// serveChunked ignores ranges and sends no length.
func serveChunked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write(video)
}

// TestRanges checks that a client gets the same answer whether or not the upstream supports ranges.
func TestRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.HandleFunc("/ranged", serveVideo)
	w.own.mux.HandleFunc("/whole", serveWhole)
	w.own.mux.HandleFunc("/chunked", serveChunked)
	size := int64(len(video))
	for _, row := range []struct {
		ask, ifRange string
		from, to     int64 // to is exclusive; from is -1 for a 416
		status       int
	}{
		{"", "", 0, size, 200},
		{"bytes=0-", "", 0, size, 206},
		{"bytes=0-0", "", 0, 1, 206},
		{"Bytes=10-19", "", 10, 20, 206},
		{"bytes= 10-19 ", "", 10, 20, 206},
		{"bytes=99990-", "", 99990, size, 206},
		{"bytes=99990-200000", "", 99990, size, 206},
		{"bytes=99999-99999999999999999999", "", 99999, size, 206},
		{"bytes=-1", "", size - 1, size, 206},
		{"bytes=-999999", "", 0, size, 206},
		{"bytes=100000-", "", -1, 0, 416},
		{"bytes=99999999999999999999-", "", -1, 0, 416},
		{"bytes=0-1,5-6", "", 0, size, 200},
		{"bytes=5-1", "", 0, size, 200},
		{"bytes=a-b", "", 0, size, 200},
		{"bytes=-", "", 0, size, 200},
		{"bytes=1", "", 0, size, 200},
		{"bytes=+1-2", "", 0, size, 200},
		{"items=0-5", "", 0, size, 200},
		{"0-5", "", 0, size, 200},
		{"bytes=5-9", `"v1"`, 5, 10, 206},
		{"bytes=5-9", `"v2"`, 0, size, 200},
		{"bytes=5-9", `W/"v1"`, 0, size, 200},
		{"bytes=5-9", videoTime.Format(http.TimeFormat), 5, 10, 206},
		{"bytes=5-9", "Mon, 02 Jan 2006 15:04:05 GMT", 0, size, 200},
		{"bytes=5-9", "a\nb", 0, size, 200},
		{"", `"v2"`, 0, size, 200},
	} {
		for _, path := range []string{"/ranged", "/whole", "/chunked"} {
			f, data, err := w.open(w.at(w.own.URL+path), content.Request{Range: row.ask, IfRange: row.ifRange})
			name := fmt.Sprintf("%s %q %q", path, row.ask, row.ifRange)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			from, to, status, wantRange := row.from, row.to, row.status, ""
			switch {
			case path == "/chunked": // without a length, no range can be cut
				from, to, status = 0, size, 200
			case status == 206:
				wantRange = fmt.Sprintf("bytes %d-%d/%d", from, to-1, size)
			case status == 416:
				from, wantRange = 0, fmt.Sprintf("bytes */%d", size)
			}
			if f.Status != status || f.Range != wantRange || !bytes.Equal(data, video[from:to]) {
				t.Errorf("%s: got %d %q with %d bytes, want %d %q with %d", name, f.Status, f.Range, len(data), status, wantRange, to-from)
			}
			if path != "/chunked" && f.Length != to-from || path == "/chunked" && f.Length != -1 {
				t.Errorf("%s: length %d", name, f.Length)
			}
			if path != "/chunked" && status != 416 && (f.ETag != `"v1"` || f.LastModified == "" || f.Type != "video/mp4") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestPartsThatWereNotAskedFor checks that a range other than the requested one is refused, because
// the client would merge it with its other parts.
func TestPartsThatWereNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		ask, sent string
		length    int
		ok        bool
	}{
		{"bytes=5-9", "bytes 5-9/100", 5, true},
		{"bytes=5-9", "bytes 5-9/*", 5, true},
		{"bytes=5-9", "bytes 5-7/100", 3, true}, // shorter than requested is allowed
		{"bytes=-5", "bytes 95-99/100", 5, true},
		{"bytes=-5", "bytes 95-99/*", 5, true},
		{"bytes=-500", "bytes 0-99/100", 100, true},
		{"bytes=5-9", "bytes 4-9/100", 6, false},
		{"bytes=5-9", "bytes 5-10/100", 6, false},
		{"bytes=5-9", "bytes 5-10/*", 6, false},
		{"bytes=5-", "bytes 6-99/100", 94, false},
		{"bytes=-5", "bytes 90-94/100", 5, false},
		{"bytes=-5", "bytes 90-99/*", 10, false},
		{"bytes=5-9", "bytes 5-9/8", 5, false},
		{"bytes=5-9", "bytes 9-5/100", 5, false},
		{"bytes=5-9", "bytes */100", 5, false},
		{"bytes=5-9", "items 5-9/100", 5, false},
		{"bytes=5-9", "bytes 5-9", 5, false},
		{"bytes=5-9", "bytes 5/100", 5, false},
		{"bytes=5-9", "bytes 5-9/x", 5, false},
		{"bytes=5-9", "", 5, false},
		{"bytes=5-9", "bytes 5-9/100", 4, false}, // Content-Length differs
		{"", "bytes 0-99/100", 100, true},        // unrequested, but complete
		{"", "bytes 0-98/100", 99, false},
		{"", "bytes 0-99/*", 100, false},
	} {
		w := newWorld(t)
		w.own.mux.HandleFunc("/file", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", row.sent)
			rw.Header().Set("Content-Type", "video/mp4")
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(video[:row.length])
		})
		f, data, err := w.open(w.at(w.own.URL+"/file"), content.Request{Range: row.ask})
		switch {
		case !row.ok && errcode.CodeOf(err) != errcode.ContentUnavailable:
			t.Errorf("%q answered with %q: got %+v, %v", row.ask, row.sent, f, err)
		case row.ok && (err != nil || len(data) != row.length || f.Length != int64(row.length)):
			t.Errorf("%q answered with %q: got %+v with %d bytes, %v", row.ask, row.sent, f, len(data), err)
		case row.ok && row.ask != "" && (f.Status != 206 || f.Range != row.sent):
			t.Errorf("%q answered with %q: got %+v", row.ask, row.sent, f)
		case row.ok && row.ask == "" && (f.Status != 200 || f.Range != ""):
			t.Errorf("the whole came as %+v", f)
		}
	}
}

func TestUpstreamsOwn416(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"bytes */100000": "bytes */100000", "Bytes */7": "bytes */7", "": "", "bytes 0-1/2": "", "bytes */x": "", "items */5": "",
	} {
		w := newWorld(t)
		w.own.mux.HandleFunc("/file", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", sent)
			http.Error(rw, strings.Repeat("no ", 100), http.StatusRequestedRangeNotSatisfiable)
		})
		f, data, err := w.open(w.at(w.own.URL+"/file"), content.Request{Range: "bytes=200000-"})
		if err != nil || f.Status != 416 || f.Range != want || len(data) != 0 || f.Length != 0 {
			t.Errorf("%q: got %+v, %d bytes, %v", sent, f, len(data), err)
		}
	}
}

// TestTypeOfAPart checks that the type is detected only from bytes at the start of the file.
func TestTypeOfAPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.HandleFunc("/file", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(rw, r, "", videoTime, strings.NewReader(string(video[:100])+`{"message":"this is no JSON"}`))
	})
	for ask, want := range map[string]string{"bytes=0-50": "video/mp4", "bytes=100-": "application/octet-stream"} {
		f, _, err := w.open(w.at(w.own.URL+"/file"), content.Request{Range: ask})
		if err != nil || f.Type != want {
			t.Errorf("%s: got %+v, %v", ask, f, err)
		}
	}
}

// TestRangeOfAHolder checks that a range of JSON that names the URL makes the reader fetch the JSON
// whole and apply the range to the named content.
func TestRangeOfAHolder(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"typed": "application/json", "untyped": "application/octet-stream"} {
		w := newWorld(t)
		w.foreign.mux.HandleFunc("/file", serveVideo)
		holder := `{"url":"` + w.foreign.URL + `/file"}`
		w.own.mux.HandleFunc("/base/v1/content", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", kind)
			http.ServeContent(rw, r, "", videoTime, strings.NewReader(holder))
		})
		place := content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true}
		for _, row := range []struct {
			ask      string
			from, to int
			calls    int
		}{
			{"bytes=0-9", 0, 10, 2},
			{"bytes=0-", 0, len(video), 1}, // the JSON came whole
			{"bytes=1000-1999", 1000, 2000, 2},
			{"bytes=-200", len(video) - 200, len(video), 1},
			{"bytes=200000-", -1, 0, 2},
		} {
			before, beforeFilm := len(w.own.requests()), len(w.foreign.requests())
			f, data, err := w.open(place, content.Request{Range: row.ask})
			if err != nil {
				t.Errorf("%s %s: %v", name, row.ask, err)
				continue
			}
			status, want := http.StatusPartialContent, []byte{}
			if row.from < 0 {
				status = http.StatusRequestedRangeNotSatisfiable
			} else {
				want = video[row.from:row.to]
			}
			if f.Status != status || !bytes.Equal(data, want) {
				t.Errorf("%s %s: got %d %q with %d bytes", name, row.ask, f.Status, f.Range, len(data))
			}
			if n := len(w.own.requests()) - before; n != row.calls {
				t.Errorf("%s %s: %d calls", name, row.ask, n)
			}
			if film := w.foreign.requests()[beforeFilm]; film.Header.Get("Range") != row.ask {
				t.Errorf("%s %s: the film was asked for %q", name, row.ask, film.Header.Get("Range"))
			}
		}
	}
}

// TestA416IsKept checks that a 416 is passed on unless the answer without a range is JSON, which is
// fetched only if the reported length is small or unknown.
func TestA416IsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length string // of the Content-Range
		whole  http.HandlerFunc
		calls  int
		code   errcode.Code // of the error expected instead of the 416
	}{
		"a film":               {"bytes */2000000", nil, 1, ""},
		"a small film":         {"bytes */1000", answer(200, "video/mp4", "film"), 2, ""},
		"gone meanwhile":       {"bytes */1000", answer(404, "", ""), 2, ""},
		"an error, as success": {"", answer(200, "application/json", `{"message":"gone wrong"}`), 2, errcode.ContentUnavailable},
		"a holder of a film":   {"bytes */60", answer(200, "application/json", `{"url":"data:video/mp4,film"}`), 2, ""},
	} {
		w := newWorld(t)
		w.own.mux.HandleFunc("/file", func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				c.whole(rw, r)
				return
			}
			rw.Header().Set("Content-Range", c.length)
			rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		})
		f, _, err := w.open(w.at(w.own.URL+"/file"), content.Request{Range: "bytes=3000000-"})
		if c.code != "" && errcode.CodeOf(err) != c.code || c.code == "" && (err != nil || f.Status != 416) {
			t.Errorf("%s: got %+v, %v", name, f, err)
		}
		if n := len(w.own.requests()); n != c.calls {
			t.Errorf("%s: %d calls", name, n)
		}
	}
}
