package sandbox

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Values of Behaviour.Content.
const (
	// ContentRedirect redirects the content path to the file with 302.
	ContentRedirect = "redirect"
	// ContentJSON answers the content path with {"url": ...}, the URL of the file.
	ContentJSON = "json"
	// ContentHTML serves a web page instead of the file.
	ContentHTML = "html"
	// ContentExpired answers 404.
	ContentExpired = "expired"
	// ContentSlow sends 256 bytes every ChunkIntervalMS.
	ContentSlow = "slow"
	// ContentNoRange ignores Range and sends the whole file with 200.
	ContentNoRange = "no_range"
	// ContentShort sends the Content-Length of the whole file and only its first half.
	ContentShort = "short"
)

var contents = []string{
	ContentRedirect, ContentJSON, ContentHTML, ContentExpired, ContentSlow, ContentNoRange, ContentShort,
}

const (
	slowPiece    = 256 // bytes
	slowInterval = 100 * time.Millisecond
)

// contentScript controls how a task's file is served. The zero value serves it correctly.
type contentScript struct {
	kind     string
	host     string
	bytes    int64         // 0 means the length of the clip
	hereAt   time.Duration // since the task has completed
	goneAt   time.Duration // 0 means never
	interval time.Duration // between pieces of a slow file
}

func newContentScript(b Behaviour) contentScript {
	c := contentScript{
		kind: b.Content, host: b.ContentHost, bytes: b.ContentBytes,
		hereAt: time.Duration(b.ContentAfterMS) * time.Millisecond,
		goneAt: time.Duration(b.GoneAfterMS) * time.Millisecond, interval: slowInterval,
	}
	if b.ChunkIntervalMS != nil {
		c.interval = time.Duration(*b.ChunkIntervalMS) * time.Millisecond
	}
	return c
}

// contentScript returns the zero value for a task without a script.
func (t *task) contentScript() contentScript {
	if t.script == nil {
		return contentScript{}
	}
	return t.script.content
}

func (c contentScript) location(r *http.Request, path string) string {
	switch {
	case c.host == "":
		return path
	case strings.Contains(c.host, "://"):
		return strings.TrimRight(c.host, "/") + path
	case r.TLS != nil:
		return "https://" + c.host + path
	default:
		return "http://" + c.host + path
	}
}

// pointsElsewhere answers the content path with the location of the file if the behaviour says so,
// and reports whether it did.
func (s *Sandbox) pointsElsewhere(w http.ResponseWriter, r *http.Request, t *task) bool {
	c := t.contentScript()
	switch c.kind {
	case ContentRedirect:
		w.Header().Set("Location", c.location(r, t.filePath(0)))
		w.WriteHeader(http.StatusFound)
	case ContentJSON:
		url := c.location(r, t.filePath(0))
		if c.host == "" {
			url = s.baseURL(r) + url
		}
		writeJSON(w, http.StatusOK, append(appendJSON([]byte(`{"url":`), url), '}'))
	default:
		return false
	}
	return true
}

func (s *Sandbox) serveFile(w http.ResponseWriter, r *http.Request, t *task) {
	c := t.contentScript()
	age := time.Since(s.start) - t.created - t.duration
	if c.kind == ContentExpired || age < c.hereAt || c.goneAt > 0 && age >= c.goneAt {
		writeNested(w, http.StatusNotFound, apiError{message: "Video content has expired", kind: kindInvalid})
		return
	}
	size := int64(len(clip))
	if c.bytes > 0 {
		size = c.bytes
	}
	file := io.NewSectionReader(paddedClip{}, 0, size)
	h := w.Header()
	h.Set("Content-Type", "video/mp4")
	h.Set("ETag", `"`+t.id+`"`)
	switch c.kind {
	case ContentHTML:
		writeHTML(w)
	case ContentNoRange, ContentShort:
		h.Set("Content-Length", strconv.FormatInt(size, 10))
		if c.kind == ContentShort {
			file = io.NewSectionReader(file, 0, size/2)
		}
		_, _ = io.Copy(w, file) // if the file is short, net/http closes the connection
	case ContentSlow:
		wait := func() bool { return s.wait(r.Context(), c.interval) }
		http.ServeContent(flushed{w}, r, "", clipTime, &slowFile{ReadSeeker: file, wait: wait})
	default:
		http.ServeContent(w, r, "", clipTime, file)
	}
}

func writeHTML(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title><p>Please sign in to see this video.</p>\n")
}

// paddedClip reads as the clip followed by endless zeros, which take no memory.
type paddedClip struct{}

func (paddedClip) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(clip)) {
		n = copy(p, clip[off:])
	}
	clear(p[n:])
	return len(p), nil
}

// slowFile reads small pieces and waits before each one except the first.
type slowFile struct {
	io.ReadSeeker
	wait  func() bool
	begun bool
}

func (f *slowFile) Read(p []byte) (int, error) {
	if f.begun && !f.wait() {
		return 0, http.ErrAbortHandler
	}
	f.begun = true
	return f.ReadSeeker.Read(p[:min(len(p), slowPiece)])
}

type flushed struct{ http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}
