package videos

import (
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Limits of the part of a data: URL before the data, in bytes.
const (
	maxFileName = 255
	maxDataHead = 4 << 10 // a percent-encoded name and the media type's parameters
)

const octetStream = "application/octet-stream"

// dataURL is the file in a data: URL:
//
//	data:image/png;name=first%20frame.png;base64,iVBORw0KGgo...
//
// The name is the file's; all other parameters belong to the media type.
type dataURL struct {
	mediaType string
	params    map[string]string // without name
	name      string            // as received
	base64    bool
	data      string // still encoded
}

func isDataURL(s string) bool {
	return len(s) >= len("data:") && strings.EqualFold(s[:len("data:")], "data:")
}

// parseDataURL parses everything except the data, which decode handles. The error continues a
// sentence that begins with the member's name, and quotes nothing.
func parseDataURL(s string) (dataURL, error) {
	if !isDataURL(s) {
		return dataURL{}, errors.New("is not a data: URL")
	}
	s = s[len("data:"):]
	comma := strings.IndexByte(s[:min(len(s), maxDataHead)], ',')
	if comma < 0 {
		return dataURL{}, errors.New("is a data: URL without a comma before its data")
	}
	head := strings.Split(s[:comma], ";")
	d := dataURL{data: s[comma+1:], mediaType: octetStream}
	if last := len(head) - 1; strings.EqualFold(head[last], "base64") {
		d.base64, head = true, head[:last]
	}
	if len(head) > 0 && head[0] != "" {
		media, _, err := mime.ParseMediaType(head[0])
		if err != nil || !strings.Contains(media, "/") {
			return dataURL{}, errors.New("is a data: URL with an invalid media type; write it like image/png")
		}
		d.mediaType = media
	}
	d.setParams(head[min(1, len(head)):])
	return d, nil
}

// setParams reads name=value pairs and skips invalid ones.
func (d *dataURL) setParams(pairs []string) {
	d.params = map[string]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		key, badKey := url.PathUnescape(key)
		value, badValue := url.PathUnescape(value)
		switch key = strings.ToLower(key); {
		case badKey != nil || badValue != nil || key == "":
		case key == "name":
			d.name = value
		default:
			d.params[key] = value
		}
	}
}

// head returns everything before the data, for Base64 data. It is ASCII without quotes, backslashes
// or control characters.
func (d dataURL) head() string {
	var b strings.Builder
	_, _ = b.WriteString("data:" + d.mediaType)
	for _, key := range slices.Sorted(maps.Keys(d.params)) {
		_, _ = b.WriteString(";" + url.PathEscape(key) + "=" + url.PathEscape(d.params[key]))
	}
	if d.name != "" {
		_, _ = b.WriteString(";name=" + url.PathEscape(d.name))
	}
	_, _ = b.WriteString(";base64,")
	return b.String()
}

func (d dataURL) contentType() string {
	if full := mime.FormatMediaType(d.mediaType, d.params); full != "" {
		return full
	}
	return d.mediaType
}

// fileName returns the file's name. If it is missing or not valid in a form, it returns a name that
// fits the media type, because upstreams distinguish files from texts by the name.
func (d dataURL) fileName() string {
	if name := baseName(d.name); name != "" && isFileName(name) {
		return name
	}
	return inputReference + "." + extension(d.mediaType)
}

// baseName returns a file's name without its directories, or "" if nothing is left.
func baseName(name string) string {
	switch name = path.Base(name); name {
	case ".", "..", "/":
		return ""
	default:
		return name
	}
}

// isFileName reports whether a name is valid in the header of a form's part.
func isFileName(name string) bool {
	return len(name) <= maxFileName && !strings.ContainsFunc(name, unicode.IsControl)
}

// extension returns the file name extension for a media type. It does not use the mime package,
// whose result depends on the machine, because all replicas must send the same bytes.
func extension(mediaType string) string {
	switch mediaType {
	case "image/png":
		return "png"
	case "image/jpeg", "image/jpg":
		return "jpg"
	case "image/webp":
		return "webp"
	case "image/gif":
		return "gif"
	case "video/mp4":
		return "mp4"
	case "video/webm":
		return "webm"
	case "video/quicktime":
		return "mov"
	default:
		return "bin"
	}
}

// decode writes the file's bytes. The error is w's, or continues a sentence like that of
// parseDataURL.
func (d dataURL) decode(w io.Writer) error {
	data := d.data
	if strings.Contains(data, "%") {
		var err error
		if data, err = url.PathUnescape(data); err != nil {
			return errors.New("is a data: URL with a broken percent-encoding")
		}
	}
	if data == "" {
		return errors.New("is a data: URL without data")
	}
	if !d.base64 {
		_, err := io.WriteString(w, data)
		return err
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(data, "-_") {
		encoding = base64.RawURLEncoding
	}
	_, err := io.Copy(w, base64.NewDecoder(encoding, strings.NewReader(strings.TrimRight(data, "="))))
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("is a data: URL without valid Base64")
	}
	return err
}

// checkDataURL describes the problem with a data: URL, or returns "".
func checkDataURL(s string) string {
	d, err := parseDataURL(s)
	if err == nil {
		err = d.decode(io.Discard)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
