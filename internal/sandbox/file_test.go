package sandbox_test

import (
	"encoding/binary"
	"net/http"
	"strconv"
	"testing"

	"github.com/genbus/genbus/internal/sandbox"
)

// box returns the content and the file offset of the first MP4 box at path, such as "moov", "trak".
func box(t *testing.T, data []byte, offset int, path ...string) ([]byte, int) {
	t.Helper()
	for pos := 0; pos+8 <= len(data); {
		size := int(binary.BigEndian.Uint32(data[pos:]))
		if size < 8 || pos+size > len(data) {
			t.Fatalf("box at %d says %d bytes, %d are left", offset+pos, size, len(data)-pos)
		}
		if string(data[pos+4:pos+8]) == path[0] {
			inner := data[pos+8 : pos+size]
			if len(path) == 1 {
				return inner, offset + pos + 8
			}
			return box(t, inner, offset+pos+8, path[1:]...)
		}
		pos += size
	}
	t.Fatalf("no box %v", path)
	return nil, 0
}

func TestMP4IsPlayable(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0","prompt":"p"}`))
	a := b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "video/mp4" {
		t.Fatalf("content: %d %s", a.status, a.header.Get("Content-Type"))
	}
	if ftyp, at := box(t, a.body, 0, "ftyp"); at != 8 || string(ftyp[:4]) != "isom" {
		t.Errorf("ftyp at %d says %q", at, ftyp[:4])
	}
	stbl := []string{"moov", "trak", "mdia", "minf", "stbl"}
	stsd, _ := box(t, a.body, 0, append(stbl, "stsd")...)
	avc1, _ := box(t, stsd[8:], 0, "avc1")
	if w, h := binary.BigEndian.Uint16(avc1[24:]), binary.BigEndian.Uint16(avc1[26:]); w != 128 || h != 72 {
		t.Errorf("picture of %dx%d", w, h)
	}
	if avcC, _ := box(t, avc1[78:], 0, "avcC"); avcC[0] != 1 {
		t.Errorf("avcC version %d", avcC[0])
	}
	stsz, _ := box(t, a.body, 0, append(stbl, "stsz")...)
	stco, _ := box(t, a.body, 0, append(stbl, "stco")...)
	mdat, start := box(t, a.body, 0, "mdat")
	if frames := binary.BigEndian.Uint32(stsz[8:]); frames != 8 {
		t.Errorf("%d frames, want 8", frames)
	}
	first := int(binary.BigEndian.Uint32(stco[8:]))
	size := int(binary.BigEndian.Uint32(stsz[12:]))
	if first < start || first+size > start+len(mdat) {
		t.Fatalf("first frame is %d..%d, mdat %d..%d", first, first+size, start, start+len(mdat))
	}
	if nal := a.body[first+4] & 0x1f; nal != 5 {
		t.Errorf("first unit has type %d, want 5 (a key frame)", nal)
	}
}

func TestRangeAndHead(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0","prompt":"p"}`))
	whole := b.do(t, http.MethodGet, "/files/"+id+".mp4", "")
	for _, path := range []string{"/files/" + id + ".mp4", "/v1/videos/" + id + "/content"} {
		head := b.do(t, http.MethodHead, path, "")
		if head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Length") != strconv.Itoa(len(whole.body)) {
			t.Errorf("HEAD %s: %d, %d bytes, length %s", path, head.status, len(head.body), head.header.Get("Content-Length"))
		}
		part := b.do(t, http.MethodGet, path, "", "Range", "bytes=4-7")
		if part.status != http.StatusPartialContent || string(part.body) != "ftyp" {
			t.Errorf("range of %s: %d %q", path, part.status, part.body)
		}
	}
}

func TestContentWaitsForTheTask(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video-enveloped:duration_ms=60000","prompt":"p"}`))
	a := b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", "")
	if a.status != 400 || at(a.json(t), "error", "message") != "Task is not completed yet, current status: NOT_START" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
