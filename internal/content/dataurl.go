package content

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/genbus/genbus/internal/errcode"
)

var errBadData = errors.New("the data URL is damaged")

func isDataURL(s string) bool {
	const scheme = "data:"
	return len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme)
}

// dataURL is a URL that contains its content (RFC 2397). The text is decoded while it is read.
type dataURL struct {
	kind   string // media type, or empty
	base64 bool
	text   string
}

func parseDataURL(s string) (dataURL, bool) {
	if !isDataURL(s) {
		return dataURL{}, false
	}
	head, text, ok := strings.Cut(s[len("data:"):], ",")
	if !ok {
		return dataURL{}, false
	}
	text, _, _ = strings.Cut(text, "#")
	d := dataURL{kind: strings.TrimSpace(head), text: text}
	if at := strings.LastIndexByte(head, ';'); at >= 0 && strings.EqualFold(strings.TrimSpace(head[at+1:]), "base64") {
		d.kind, d.base64 = strings.TrimSpace(head[:at]), true
	}
	return d, true
}

func (d dataURL) open() io.Reader {
	plain := &percentReader{text: d.text}
	if !d.base64 {
		return plain
	}
	return base64.NewDecoder(base64.RawStdEncoding, &base64Reader{src: plain})
}

// openData decodes the text twice, first to validate it and to learn its length, then for the
// reader. Decoding once would need memory for the whole content.
func openData(s string, w want) (*File, error) {
	d, ok := parseDataURL(s)
	if !ok {
		return nil, errcode.New(errcode.ContentUnavailable, "%w", errBadData)
	}
	length, err := io.Copy(io.Discard, d.open())
	if err != nil || length == 0 {
		return nil, errcode.New(errcode.ContentUnavailable, "%w or empty", errBadData)
	}
	body := bufio.NewReaderSize(d.open(), sniffed)
	kind, err := identify(body, d.kind, true)
	if err != nil || kind == typeJSON || kind == typeHTML {
		return nil, errcode.New(errcode.ContentUnavailable, "the data URL contains no video")
	}
	return w.of(&File{Type: kind, Length: length, Body: io.NopCloser(body)}), nil
}

// percentReader decodes %xx.
type percentReader struct{ text string }

func (r *percentReader) Read(p []byte) (n int, err error) {
	if r.text == "" {
		return 0, io.EOF
	}
	for n < len(p) && r.text != "" {
		plain, _, _ := strings.Cut(r.text[:min(len(r.text), len(p)-n)], "%")
		n += copy(p[n:], plain)
		if r.text = r.text[len(plain):]; plain != "" {
			continue
		}
		if len(r.text) < 3 {
			return n, errBadData
		}
		if _, err := hex.Decode(p[n:n+1], []byte(r.text[1:3])); err != nil {
			return n, errBadData
		}
		n, r.text = n+1, r.text[3:]
	}
	return n, nil
}

// base64Reader converts URL-safe, padded or wrapped Base64 to the standard alphabet without
// padding.
type base64Reader struct {
	src    io.Reader
	padded bool
}

func (r *base64Reader) Read(p []byte) (int, error) {
	for {
		n, err := r.src.Read(p)
		kept, ok := r.keep(p[:n])
		if !ok {
			return 0, errBadData
		}
		if kept > 0 || err != nil || len(p) == 0 {
			return kept, err
		}
	}
}

// keep normalises p in place. ok is false if data follows the padding.
func (r *base64Reader) keep(p []byte) (n int, ok bool) {
	for _, c := range p {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '=':
			r.padded = true
			continue
		case '-':
			c = '+'
		case '_':
			c = '/'
		}
		if r.padded {
			return n, false
		}
		p[n] = c
		n++
	}
	return n, true
}
