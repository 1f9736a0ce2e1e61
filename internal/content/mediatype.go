package content

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Media types of responses that are not content or whose type is unknown.
const (
	typeJSON    = "application/json"
	typeHTML    = "text/html"
	typeUnknown = "application/octet-stream"
)

// sniffed is how many bytes are examined to detect a type.
const sniffed = 512

// identify returns the media type to pass on. This is the declared type if it is meaningful.
// Otherwise, if body is at the start of the file, the type is detected from the first bytes.
// typeJSON and typeHTML mean that the response is not a video.
func identify(body *bufio.Reader, declared string, atStart bool) (string, error) {
	if kind := declaredType(declared); kind != "" || !atStart {
		if kind == "" {
			kind = typeUnknown
		}
		return kind, nil
	}
	head, err := body.Peek(sniffed)
	if err != nil && err != io.EOF {
		return "", err
	}
	return sniff(head), nil
}

// declaredType parses a Content-Type and returns "" if it is not meaningful. It replaces types that
// a browser would run or render as a page, because genbus serves content from its own origin and
// must not serve foreign scripts there.
func declaredType(header string) string {
	kind, params, err := mime.ParseMediaType(header)
	switch {
	case err != nil && kind == "", !strings.Contains(kind, "/"):
		return ""
	case kind == "application/octet-stream", kind == "binary/octet-stream":
		return ""
	case kind == typeJSON, kind == "text/json", strings.HasSuffix(kind, "+json"):
		return typeJSON
	case kind == typeHTML:
		return typeHTML
	case isActive(kind):
		return typeUnknown
	}
	if full := mime.FormatMediaType(kind, params); full != "" {
		return full
	}
	return kind
}

func isActive(kind string) bool {
	main, sub, _ := strings.Cut(kind, "/")
	switch main {
	case "text", "multipart", "message":
		return true
	default:
		return strings.Contains(sub, "xml") || strings.Contains(sub, "html") || strings.Contains(sub, "script")
	}
}

func sniff(head []byte) string {
	switch {
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return typeJSON
	case len(head) >= 12 && string(head[4:8]) == "ftyp":
		if string(head[8:12]) == "qt  " {
			return "video/quicktime"
		}
		return "video/mp4"
	case len(head) >= 8 && (string(head[4:8]) == "moov" || string(head[4:8]) == "mdat" || string(head[4:8]) == "wide"):
		return "video/quicktime" // a file without ftyp, as written by old QuickTime versions
	case bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")):
		if bytes.Contains(head, []byte("webm")) {
			return "video/webm"
		}
		return "video/x-matroska"
	case strings.HasPrefix(http.DetectContentType(head), typeHTML):
		return typeHTML
	default:
		return typeUnknown
	}
}
